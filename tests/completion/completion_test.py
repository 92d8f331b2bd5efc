#!/usr/bin/env python3
"""Completions in bash, zsh and fish themselves, the manual page under mandoc, and both against the command: whatever is
offered is accepted. A shell that is not installed is a failure: scripts/setup --tests installs all three."""
import argparse
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = ""


def shunt(*arguments):
    return subprocess.run([BUILD + "/bin/shunt", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def script(kind):
    done = shunt("completion", kind)
    assert done.returncode == 0, done.stderr
    return done.stdout


# What is typed, what must be among the answers, what must not.
CASES = [
    ("shunt ", ["run", "trace", "devices", "completion"], ["off"]),
    ("shunt de", ["devices"], ["run"]),
    ("shunt run --oom=s", ["shadow", "spill"], ["retry"]),
    ("shunt run --oom s", ["shadow", "spill"], ["retry"]),
    ("shunt run --gr", ["--graphs"], ["--oom"]),
    ("shunt run --sim rub", ["rubin"], ["b200"]),
    ("shunt run --oom=spill -- expr", ["expr"], ["--oom"]),
    ("shunt run --oom spill expr", ["expr"], ["--oom"]),
    ("shunt run --oom=spill -- cat /etc/host", ["/etc/hostname"], ["expr"]),
    ("shunt trace ex", ["export"], ["explain"]),
    ("shunt trace export --format=s", ["sqlite"], ["csv"]),
    ("shunt trace export --for", ["--format", "--force"], ["--threshold"]),
    ("shunt rules ", ["show", "check"], ["run"]),
    ("shunt help over", ["overlap"], ["oom"]),
    ("shunt rules check /etc/host", ["/etc/hostname"], ["show"]),
]


def words(text):
    """Answers as words: without the option they are the value of, without a blank or slash behind."""
    return {re.sub(r"^--[a-z-]+=", "", w).strip() for w in text}


def bash(line):
    program = f"""
source <(cat <<'SCRIPT'
{script("bash")}
SCRIPT
)
COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}
eval "COMP_WORDS=({line})"; case "$COMP_LINE" in *' ') COMP_WORDS+=('') ;; esac
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_shunt
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True)
    assert done.stderr == "", done.stderr
    return words(done.stdout.splitlines())


def fish(line):
    with tempfile.NamedTemporaryFile("w", suffix=".fish") as file:
        file.write(script("fish"))
        file.flush()
        environment = dict(os.environ, PATH=BUILD + "/bin:" + os.environ["PATH"], HOME=tempfile.gettempdir())
        done = subprocess.run(["fish", "--no-config", "-c", f"source {file.name}; complete -C '{line}'"], capture_output=True,
                              text=True, env=environment)
    assert done.stderr == "", done.stderr
    return words(l.split("\t")[0] for l in done.stdout.splitlines())


class Zsh:
    """zsh offers completions only to its line editor, so one runs on a terminal and lists what it would offer."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        with open(self.folder.name + "/_shunt", "w") as file:
            file.write(script("zsh"))
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ.update(TERM="dumb", ZDOTDIR=self.folder.name, PATH=BUILD + "/bin:" + os.environ["PATH"], COLUMNS="200", LINES="400")
            os.execvp("zsh", ["zsh", "-f", "-i"])
        import fcntl, struct, termios
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 400, 200, 0, 0))
        self.send("unsetopt zle prompt_cr prompt_sp; setopt zle; PS1='READY> '; stty -echo\n")
        self.send(f"fpath=({self.folder.name} $fpath); autoload -Uz compinit; compinit -u -d {self.folder.name}/dump\n")
        self.send("zstyle ':completion:*' list-separator '#'; LISTMAX=10000; unsetopt menu_complete auto_menu list_beep; "
                  "bindkey '^X' list-choices; echo begun-$((1+1))\n")
        self.until("begun-2")

    def send(self, text):
        os.write(self.fd, text.encode())

    def until(self, mark, quiet=0.0, limit=20.0):
        """Reads until the mark appears, or with `quiet` until nothing came for that long after the first byte."""
        text, end = "", time.monotonic() + limit
        while time.monotonic() < end:
            ready = select.select([self.fd], [], [], quiet or 0.2)[0]
            if ready:
                text += os.read(self.fd, 65536).decode(errors="replace")
            elif quiet and text:
                return text
            if mark and mark in text:
                return text
        return text

    def __call__(self, line):
        self.until(None, quiet=0.2, limit=1.0)
        self.send(line + "\x18")
        text = self.until(None, quiet=0.7)
        self.send("\x15\n")
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\x07", "", text)
        answers = set()
        for row in text.split("\n"):
            if "READY>" in row or row.strip() == line:  # what was typed
                continue
            row = row.split("#")[0]
            answers |= {w.rstrip("/*@") for w in row.split()}
        # Files are listed without the folder that was typed.
        folder = re.search(r"(/\S*/)\S*$", line)
        return answers | ({folder.group(1) + a for a in answers} if folder else set())

    def close(self):
        os.close(self.fd)
        self.folder.cleanup()


class Shells(unittest.TestCase):
    def check(self, complete):
        for line, wanted, unwanted in CASES:
            with self.subTest(line=line):
                answers = complete(line)
                self.assertEqual([w for w in wanted if w not in answers], [], f"missing; got {sorted(answers)[:40]}")
                self.assertEqual([w for w in unwanted if w in answers], [])

    def test_bash(self):
        self.check(bash)

    def test_fish(self):
        self.check(fish)

    def test_zsh(self):
        complete = Zsh()
        try:
            self.check(complete)
        finally:
            complete.close()

    def test_scripts_parse(self):
        for shell, flag in (("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(script(shell))
                file.flush()
                done = subprocess.run([shell, flag, file.name], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)


def offered():
    """verb [subcommand] -> options, as the bash script has them."""
    out = {}
    for verb, options in re.findall(r"^    '([a-z ]+)'\) options='(.*)' ;;$", script("bash"), re.M):
        out[verb] = options.split()
    return out


class Truth(unittest.TestCase):
    def test_every_verb_is_there(self):
        listed = re.findall(r"^  ([a-z]+)  ", shunt("--help").stdout.split("Usage:")[1], re.M)
        self.assertGreater(len(listed), 12)
        self.assertEqual(sorted(listed), sorted(v for v in offered() if " " not in v))

    def test_every_option_offered_is_accepted(self):
        """With --help beside it nothing runs; an option that the verb does not know is an error all the same."""
        tried = 0
        for verb, options in offered().items():
            for option in options:
                if option in ("--help", "-h"):
                    continue
                takes = re.search(rf"^    '{verb} {re.escape(option)}'\) values='(\S*)", script_bash, re.M)
                value = [takes.group(1) or "1"] if takes else []
                done = shunt(*verb.split(), option, *value, "--help")
                tried += 1
                text = done.stderr + done.stdout
                self.assertNotRegex(text, r"unknown option|unexpected argument|were not expected|unrecognised", f"{verb} {option}")
        self.assertGreater(tried, 80)

    def test_every_option_of_run_is_offered(self):
        flags = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", shunt("run", "--help").stdout, re.M))
        self.assertGreater(len(flags), 25)
        self.assertEqual(flags - set(offered()["run"]), set())

    def test_help_of_every_verb_is_an_answer(self):
        for verb in offered():
            done = shunt(*verb.split(), "--help")
            self.assertEqual(done.returncode, 0, verb)
            self.assertIn("Usage:", done.stdout, verb)
        for topic in re.findall(r"^  shunt help ([a-z]+)", shunt("help").stdout, re.M):
            self.assertEqual(shunt("help", topic).returncode, 0, topic)

    def test_manual_page(self):
        page = script("man")
        with tempfile.NamedTemporaryFile("w", suffix=".1") as file:
            file.write(page)
            file.flush()
            lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", file.name], capture_output=True, text=True)
            self.assertEqual((lint.returncode, lint.stdout), (0, ""))
            text = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=100", file.name], capture_output=True, text=True).stdout
        text = re.sub(".\x08", "", text)
        for verb in (v for v in offered() if " " not in v):
            self.assertIn(f"shunt {verb}", text)
        for option in offered()["run"]:
            self.assertIn(option, text)
        self.assertNotIn("`--", text.split("OPTIONS")[-1].split("ENVIRONMENT")[0])

    def test_wrong_use(self):
        for arguments, word in ((["tcsh"], "tcsh"), (["bash", "more"], "more"), ([], "")):
            done = shunt("completion", *arguments)
            self.assertEqual(done.returncode, 125)
            self.assertIn(word, done.stderr + done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    known, rest = parser.parse_known_args()
    BUILD = os.path.abspath(known.build)
    script_bash = script("bash")
    unittest.main(argv=[sys.argv[0], *rest])
