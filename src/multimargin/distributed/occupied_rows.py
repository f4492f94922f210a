"""Sums of W over the ranks of a tree, without rows that can only be zero: those of features that nobody there has.

Up the tree go the rows that a rank or one of those below it has, down the tree those that any rank has. All must hold
the same W, or they would not decide the same; so the way down has no more to leave out. Which rows these are does not
change in a training: the ranks tell each other once, in a bit a row. What is left out are zeros, so the sums are those
of whole arrays.
"""

from __future__ import annotations

import socket

import numpy as np

from multimargin.distributed.collective import Tree

WORTH = 0.9  # of all rows: more are sent as they lie in memory, without a copy

_Rows = np.ndarray | slice


class OccupiedRows:
    """Which rows of an array go over which connection of a tree. All ranks make one at the same time.

    Parameters
    ----------
    tree : Tree
    own : ndarray of bool, of shape (n_rows,)
        Rows in which this rank's arrays may be other than zero.
    """

    def __init__(self, tree: Tree, own: np.ndarray):
        self._tree = tree
        below = np.packbits(own)
        self._of_children: list[_Rows] = []
        for child in tree.children:
            theirs = np.empty_like(below)
            tree.receive(child, theirs)
            self._of_children.append(_rows(theirs, len(own)))
            below |= theirs
        self._below = _rows(below, len(own))
        if tree.parent is not None:
            tree.send(tree.parent, below)
        self._anywhere = _rows(tree.broadcast(below), len(own))
        self.count = _count(self._anywhere, len(own))  # that all hear of

    def allreduce(self, array: np.ndarray) -> np.ndarray:
        """As that of the tree, of an array with one of these rows a row."""
        tree = self._tree
        for child, rows in zip(tree.children, self._of_children, strict=True):
            for piece, theirs in tree.receive_rows(child, array, _count(rows, len(array))):
                array[_part(rows, piece)] += theirs
        if tree.parent is not None:
            self._send(tree.parent, array, self._below)
            for piece, total in tree.receive_rows(tree.parent, array, self.count):
                array[_part(self._anywhere, piece)] = total
        for child in tree.children:
            self._send(child, array, self._anywhere)
        return array

    def _send(self, peer: socket.socket, array: np.ndarray, rows: _Rows) -> None:
        if isinstance(rows, slice):
            self._tree.send(peer, array)
        else:
            self._tree.send_rows(peer, array, rows)


def _rows(bits: np.ndarray, count: int) -> _Rows:
    rows = np.flatnonzero(np.unpackbits(bits, count=count))
    return rows if len(rows) <= WORTH * count else slice(None)


def _part(rows: _Rows, piece: slice) -> _Rows:
    return piece if isinstance(rows, slice) else rows[piece]


def _count(rows: _Rows, all_rows: int) -> int:
    return all_rows if isinstance(rows, slice) else len(rows)
