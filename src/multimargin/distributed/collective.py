"""Sums over processes: ranks in a binary tree, joined by TCP connections. Whoever starts the processes (Dask, Spark,
Ray, a shell) only has to tell every rank the addresses of all:

    listener = Listener()                      # in every process
    addresses = ...                            # of all listeners, in the order of the ranks: the engine's part
    collective = connect(listener, rank, addresses, secret)

Numbers are added in the order of the tree, so that all ranks hold the same bits, every time.
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Protocol

import numpy as np

_HEADER = struct.Struct("<Q")
_RANK = struct.Struct("<q")
_READY = b"."
_NONCE = _PROOF = 32  # bytes
_CONNECT_SECONDS = 60.0
_GREETING_SECONDS = 5.0
_GONE_AFTER = 40.0  # seconds in which a machine takes nothing of what it is sent
_UNASKED = 1 << 14  # bytes that are sent to a rank before it is ready for them
_PIECE = 1 << 18  # bytes that are added up at a time


class PeerLost(ConnectionError):
    """Another rank is gone: what is to be summed over all cannot be."""


class Collective(Protocol):
    """What a distributed solver asks of the engine that runs it."""

    rank: int
    size: int

    def allreduce(self, array: np.ndarray) -> np.ndarray:
        """array <- the sum over all ranks of contiguous arrays of one shape and type; the same bits on every rank."""

    def broadcast(self, array: np.ndarray) -> np.ndarray:
        """array <- rank 0's; the others give one of the same shape and type, contiguous."""

    def close(self) -> None:
        """Leave: what the others ask for from now on fails."""


class Alone:
    """A single rank."""

    rank, size = 0, 1

    def allreduce(self, array: np.ndarray) -> np.ndarray:
        return array

    def broadcast(self, array: np.ndarray) -> np.ndarray:
        return array

    def close(self) -> None:
        pass


class Listener:
    """A socket on which a rank's children in the tree will call.

    Parameters
    ----------
    host : str
        Address or name of this machine by which the others reach it.
    """

    def __init__(self, host: str = "127.0.0.1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.create_server((host, 0), family=family, backlog=8)
        self.address: tuple[str, int] = (host, self.socket.getsockname()[1])

    def close(self) -> None:
        self.socket.close()


class Tree:
    """A collective over TCP; see the module."""

    def __init__(self, rank: int, size: int, parent: socket.socket | None, children: list[socket.socket]):
        self.rank, self.size = rank, size
        self.parent, self.children = parent, children
        self.bytes_sent = 0

    def allreduce(self, array: np.ndarray) -> np.ndarray:
        flat = array.reshape(-1)
        for child in self.children:
            for piece, theirs in self.receive_rows(child, flat, len(flat)):
                flat[piece] += theirs
        if self.parent is not None:
            self.send(self.parent, array)
        return self.broadcast(array)

    def broadcast(self, array: np.ndarray) -> np.ndarray:
        if self.parent is not None:
            self.receive(self.parent, array)
        for child in self.children:
            self.send(child, array)
        return array

    def close(self) -> None:
        """Hang up: the others' next sum fails."""
        for peer in (self.parent, *self.children):
            if peer is not None:
                peer.close()

    def send(self, peer: socket.socket, array: np.ndarray) -> None:
        """A contiguous array, to a neighbour that receives one of this size."""
        with self._neighbour():
            self._announce(peer, array.nbytes)
            peer.sendall(_bytes_of(array))

    def send_rows(self, peer: socket.socket, array: np.ndarray, rows: np.ndarray) -> None:
        """Some rows of an array, to a neighbour that receives as many."""
        with self._neighbour():
            self._announce(peer, len(rows) * _bytes_of_row(array))
            for piece in _pieces(array, len(rows)):
                peer.sendall(_bytes_of(array[rows[piece]]))

    def receive(self, peer: socket.socket, into: np.ndarray) -> None:
        """What a neighbour sends, into a contiguous array."""
        with self._neighbour():
            self._expect(peer, into.nbytes)
            _fill(_bytes_of(into), peer)

    def receive_rows(self, peer: socket.socket, like: np.ndarray, count: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows such as those of an array, piece by piece: which of them, and what they are until the next piece comes.
        A piece stays in a processor's cache; an array for all of them would be new memory every time."""
        with self._neighbour():
            self._expect(peer, count * _bytes_of_row(like))
        pieces = _pieces(like, count)
        buffer = np.empty_like(like, shape=(pieces[0].stop if pieces else 0, *like.shape[1:]))
        for piece in pieces:
            part = buffer[: piece.stop - piece.start]
            with self._neighbour():
                _fill(_bytes_of(part), peer)
            yield piece, part

    def _announce(self, peer: socket.socket, size: int) -> None:
        peer.sendall(_HEADER.pack(size))
        if size > _UNASKED:  # else a rank that computes for long could not be told from one that is gone
            _exactly(peer, len(_READY))
        self.bytes_sent += _HEADER.size + size

    def _expect(self, peer: socket.socket, size: int) -> None:
        (announced,) = _HEADER.unpack(_exactly(peer, _HEADER.size))
        if announced != size:
            raise RuntimeError(f"rank {self.rank}: {announced} bytes came where {size} should: ranks are not in step")
        if size > _UNASKED:
            peer.sendall(_READY)

    @contextmanager
    def _neighbour(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PeerLost(f"rank {self.rank}: a neighbour in the tree is gone: {error}") from error


def connect(
    listener: Listener,
    rank: int,
    addresses: list[tuple[str, int]],
    secret: bytes,
    seconds: float = _CONNECT_SECONDS,
) -> Tree:
    """Join the tree: call the parent, wait for the children.

    Parameters
    ----------
    listener : Listener
        This rank's, whose address is ``addresses[rank]``; it is closed.
    secret : bytes
        The same for all ranks of a run, and known to nobody else: strangers are turned away.
    seconds : float
        How long to wait for the others.

    Raises
    ------
    PeerLost
        If one of the others does not come in time.
    """
    size = len(addresses)
    if not 0 <= rank < size:
        listener.close()
        raise ValueError(f"rank must be from 0 to {size - 1}, got {rank}")
    deadline = time.monotonic() + seconds
    parent: socket.socket | None = None
    children: dict[int, socket.socket] = {}
    expected = {child for child in (2 * rank + 1, 2 * rank + 2) if child < size}
    missing = f"rank {(rank - 1) // 2} did not answer within {seconds:g} s"
    try:
        if rank > 0:
            address = addresses[(rank - 1) // 2]
            parent = socket.create_connection(address, timeout=seconds)
            if not _knows_parent(parent, rank, secret, deadline):
                missing = f"somebody else answers at {address}"
                raise ConnectionRefusedError("it does not know the secret")
        while set(children) != expected:
            missing = f"ranks {sorted(expected - set(children))} did not call within {seconds:g} s"
            listener.socket.settimeout(_left(deadline))
            peer, _ = listener.socket.accept()
            child = _greeted(peer, secret, min(deadline, time.monotonic() + _GREETING_SECONDS))
            if child in expected and child not in children:
                children[child] = peer
            else:
                peer.close()
    except OSError as error:
        for neighbour in (parent, *children.values()):
            if neighbour is not None:
                neighbour.close()
        raise PeerLost(f"rank {rank}: {missing}: {error}") from error
    finally:
        listener.close()
    ordered = [children[child] for child in sorted(children)]
    for neighbour in (parent, *ordered):
        if neighbour is not None:
            _patient_but_watchful(neighbour)
    return Tree(rank, size, parent, ordered)


def why_unreachable(rank: int, addresses: list[tuple[str, int]], seconds: float) -> str | None:
    """Why this rank cannot call its parent in the tree, whose listener is open; None if it can. Whether the parent has
    time for the call does not matter: its system takes it."""
    if rank == 0:
        return None
    parent = (rank - 1) // 2
    host, port = addresses[parent]
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError as error:
        return f"rank {rank} at {addresses[rank][0]} cannot reach rank {parent} at {host}, port {port}: {error}"
    return None


# Both sides prove that they know the secret, by what only this call can have: the nonces of both.


def _knows_parent(parent: socket.socket, rank: int, secret: bytes, deadline: float) -> bool:
    """A child's side of the greeting."""
    own = os.urandom(_NONCE)
    parent.sendall(own + _RANK.pack(rank))
    answer = _exactly(parent, _NONCE + _PROOF, deadline)
    others, proof = bytes(answer[:_NONCE]), bytes(answer[_NONCE:])
    if not hmac.compare_digest(proof, _proof(secret, b"parent", own, others, rank)):
        return False
    parent.sendall(_proof(secret, b"child", own, others, rank))
    return True


def _greeted(peer: socket.socket, secret: bytes, deadline: float) -> int:
    """The rank that calls; -1 for a stranger."""
    try:
        hello = _exactly(peer, _NONCE + _RANK.size, deadline)
        others, (rank,) = bytes(hello[:_NONCE]), _RANK.unpack(hello[_NONCE:])
        own = os.urandom(_NONCE)
        peer.sendall(own + _proof(secret, b"parent", others, own, rank))
        known = hmac.compare_digest(
            bytes(_exactly(peer, _PROOF, deadline)), _proof(secret, b"child", others, own, rank)
        )
    except OSError:
        return -1
    return rank if known else -1


def _proof(secret: bytes, side: bytes, childs: bytes, parents: bytes, rank: int) -> bytes:
    return hmac.digest(secret, b"multimargin collective, " + side + childs + parents + _RANK.pack(rank), "sha256")


def _patient_but_watchful(peer: socket.socket) -> None:
    """A rank may compute for long before it answers; one whose machine is gone must be noticed within a minute: by
    keep-alive when it is waited for, by TCP_USER_TIMEOUT when it is sent something. The latter strikes a rank with full
    buffers, too, even if its machine answers; so ranks ask for what does not fit into buffers."""
    peer.settimeout(None)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    gone_after = ("TCP_USER_TIMEOUT", int(1000 * _GONE_AFTER))
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), gone_after):
        if hasattr(socket, option):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 1e-3)


def _bytes_of_row(array: np.ndarray) -> int:
    return array.itemsize * prod(array.shape[1:])


def _pieces(like: np.ndarray, count: int) -> list[slice]:
    """Rows in pieces, of the same size but the last."""
    step = max(1, _PIECE // max(_bytes_of_row(like), 1))
    return [slice(begin, min(begin + step, count)) for begin in range(0, count, step)]


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.data.cast("B") if array.nbytes else memoryview(b"")


def _exactly(peer: socket.socket, size: int, deadline: float | None = None) -> bytearray:
    buffer = bytearray(size)
    _fill(memoryview(buffer), peer, deadline)
    return buffer


def _fill(view: memoryview, peer: socket.socket, deadline: float | None = None) -> None:
    got = 0
    while got < len(view):
        if deadline is not None:
            peer.settimeout(_left(deadline))
        count = peer.recv_into(view[got:])
        if count == 0:
            raise ConnectionResetError("the connection was closed")
        got += count
