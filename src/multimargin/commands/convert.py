"""``multimargin convert``: our models to LIBLINEAR, LIBSVM and ONNX, and those of LIBLINEAR and LIBSVM to ours; data to
a store of blocks."""

from __future__ import annotations

import argparse
from typing import Any

from multimargin.commands.errors import DONE, CommandError, UsageError
from multimargin.commands.options import Parser, add_output_options, command, positive
from multimargin.commands.output_paths import check_output
from multimargin.commands.terminal import Terminal, file_size

_KINDS = ("multimargin", "liblinear", "libsvm", "onnx")
_SUFFIXES = {
    ".onnx": "onnx",
    ".liblinear": "liblinear",
    ".libsvm": "libsvm",
    ".safetensors": "multimargin",
    ".multimargin": "multimargin",
}
_ABOUT = f"""Convert a model. What IN is, its first bytes say; what OUT is to be, --to says, or its suffix:
{", ".join(f"{suffix} {kind}" for suffix, kind in _SUFFIXES.items())}.
A model of LIBLINEAR or LIBSVM becomes one of ours where neither says it.

Where OUT ends with .blocks, IN is data (svmlight text, .npz, or a table of numbers with --label), and OUT a folder of
blocks from which train trains past memory."""
_EXAMPLE = """multimargin train @digits digits.model -s 3
multimargin convert digits.model digits.liblinear
multimargin convert digits.liblinear again.safetensors"""


def add_to(subparsers: Any) -> None:
    """The command's options."""
    parser: Parser = command(
        subparsers,
        "convert",
        run,
        "IN OUT [--to FORMAT] [options]",
        "convert a model to another format",
        _ABOUT,
        _EXAMPLE,
    )
    parser.add_argument("model", metavar="IN", help="model to read: ours, LIBLINEAR's or LIBSVM's; or data")
    parser.add_argument("out", metavar="OUT", help="file to write")
    parser.add_argument("--to", choices=_KINDS, help="format of OUT, where its suffix does not say it")
    parser.add_argument("--label", metavar="COL", help="table to .blocks: the column of the labels")
    parser.add_argument(
        "--block-mb", metavar="MB", type=positive, default=64.0, help=".blocks: size of one (default: 64)"
    )
    parser.add_argument("--compress", action="store_true", help=".blocks: pack them by zlib")
    add_output_options(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Load the one, write the other."""
    if args.out.rstrip("/").lower().endswith(".blocks"):
        return _write_blocks(args, terminal)
    from multimargin.commands.model_files import model_file

    with model_file(args.model) as there:
        return _convert(args, there, terminal)


def _convert(args: argparse.Namespace, there: str, terminal: Terminal) -> int:
    from multimargin.commands.model_files import kind_of, load_model

    source = kind_of(there)
    to = args.to or next((kind for suffix, kind in _SUFFIXES.items() if args.out.lower().endswith(suffix)), None)
    if to is None and source != "multimargin":
        to = "multimargin"
    if to is None:
        raise UsageError(
            f"{args.out}: which format? Say --to {'|'.join(_KINDS)}, or use its suffix (see convert --help)"
        )
    check_output(args.out, apart_from=(args.model,), replaces=None if to == "onnx" else "model")  # ONNX has no sign
    model = load_model(there)
    try:
        _writer(to)(model, args.out)
    except (TypeError, ValueError) as error:
        raise CommandError(f"{args.model}: {error}") from None
    terminal.summary(f"{source} -> {to}: {args.out}, {file_size(args.out)}")
    terminal.answer({"command": "convert", "in": args.model, "out": args.out, "from": source, "to": to})
    return DONE


def _write_blocks(args: argparse.Namespace, terminal: Terminal) -> int:
    from multimargin.commands.past_memory import write_store
    from multimargin.commands.words import counted

    if args.to is not None:
        raise UsageError(f"--to {args.to} is for models; {args.out} will be a store of blocks")
    store = write_store(args, args.out, terminal, block_mb=args.block_mb, compress=args.compress)
    blocks, rows = counted(len(store), "block"), counted(store.n_rows, "row")
    terminal.summary(f"{args.model} -> {args.out}: {rows} in {blocks}")
    answer = {"command": "convert", "in": args.model, "out": args.out, "to": "blocks"}
    terminal.answer(answer | {"rows": store.n_rows, "features": store.n_features, "blocks": len(store)})
    return DONE


def _writer(kind: str) -> Any:
    if kind == "liblinear":
        from multimargin.models.liblinear import write_liblinear

        return write_liblinear
    if kind == "libsvm":
        from multimargin.models.libsvm import write_libsvm

        return write_libsvm
    if kind == "onnx":
        from multimargin.models.onnx import write_onnx

        return write_onnx
    from multimargin.models import save

    return save
