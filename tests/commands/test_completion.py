"""Shell completion, in a real bash."""

import shutil
import subprocess

import pytest

from multimargin.commands.main import build_parser


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    from multimargin.commands.completion import bash

    path = tmp_path_factory.mktemp("completion") / "multimargin.bash"
    path.write_text(bash(build_parser()) + "\n")
    return path


def completed(script, line, folder):
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    program = f"""
source {script}
COMP_WORDS=({" ".join(repr(word) for word in words)})
COMP_CWORD={len(words) - 1}
_multimargin
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        [shutil.which("bash"), "--norc", "-c", program], capture_output=True, text=True, cwd=folder, timeout=30
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("multimargin t", {"train", "tune"}),
        ("multimargin --v", {"--version"}),
        ("multimargin train --form", {"--formulation", "--format"}),
        ("multimargin train d.svm m --formulation w", {"weston_watkins"}),
        ("multimargin train d.svm m --kernel ", {"rbf", "linear", "poly", "sigmoid"}),
        ("multimargin tune --C-r", {"--C-range"}),
        ("multimargin convert --to o", {"onnx"}),
        ("multimargin predict --kern", set()),
        ("multimargin completion z", {"zsh"}),
        ("multimargin train some", {"some.svm"}),
    ],
)
def test_bash(script, tmp_path, line, offered):
    (tmp_path / "some.svm").write_text("")
    assert completed(script, line, tmp_path) == offered


def test_every_command_and_option_is_offered(script, tmp_path):
    parser = build_parser()
    assert completed(script, "multimargin ", tmp_path) >= set(parser.commands)
    for name, sub in parser.commands.items():
        options = {option for action in sub._actions for option in action.option_strings}
        assert completed(script, f"multimargin {name} -", tmp_path) == options


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_printed(run, shell):
    done = run("completion", shell)
    assert done.code == 0 and "weston_watkins" in done.out
    assert ("bashcompinit" in done.out) == (shell == "zsh")
    if shell == "fish":
        assert all(line.startswith("complete -c multimargin ") for line in done.out.splitlines())


def fish_lines(parser):
    from multimargin.commands.completion import fish

    return fish(parser).splitlines()


@pytest.mark.parametrize(
    "line",
    [
        "complete -c multimargin -n __fish_use_subcommand -f -a train -d 'Train a machine and write it to MODEL.'",
        "complete -c multimargin -n '__fish_seen_subcommand_from train' -s q -l quiet "
        "-d 'no progress, no notes, no summary of written files'",
        "complete -c multimargin -n '__fish_seen_subcommand_from train' -l kernel -x -a 'rbf linear poly sigmoid' "
        "-d 'a kernel machine'",
        "complete -c multimargin -n '__fish_seen_subcommand_from train' -l tol -r "
        "-d 'relative duality gap to reach (default: 0.001)'",
        "complete -c multimargin -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'",
    ],
)
def test_fish(line):
    assert line in fish_lines(build_parser())


def test_every_command_and_option_is_a_line_of_fish():
    parser = build_parser()
    options = [action for sub in parser.commands.values() for action in sub._actions if action.option_strings]
    of_words = 1  # the shells of completion
    assert len(fish_lines(parser)) == len(parser.commands) + len(options) + of_words


def test_what_is_hidden_or_unsaid():
    import argparse

    from multimargin.commands.completion import bash

    sub = argparse.ArgumentParser(description="It's\nlong", add_help=False)
    sub.add_argument("--hidden", help=argparse.SUPPRESS)
    sub.add_argument("--plain", action="store_true")
    sub.add_argument("--back", help="a \\ and a '; more")
    top = argparse.ArgumentParser(add_help=False)
    top.commands = {"go": sub}
    seen = "complete -c multimargin -n '__fish_seen_subcommand_from go'"
    assert fish_lines(top) == [
        "complete -c multimargin -n __fish_use_subcommand -f -a go -d 'It\\'s'",
        f"{seen} -l plain -d ''",
        f"{seen} -l back -r -d 'a \\\\ and a \\''",
    ]
    assert "    go) words='--plain --back' ;;" in bash(top).splitlines()
    assert not bash(top).startswith("(( ") and bash(top, zsh=True).startswith("(( ")
