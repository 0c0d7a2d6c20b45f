"""A process is told beyond doubt, signalled without mistake, waited for and found."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.guard import find_by_token, identify, new_token, send_signal, state, wait_gone
from guard_parts import python, sleeper, stopped, until

LEADER_EXITS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("up", flush=True)
ctypes.CDLL(None).syscall({exit_thread}, 0)
"""


def test_identity_is_the_same_however_often_it_is_asked_for() -> None:
    with sleeper() as child:
        assert identify(child.pid) == identify(child.pid)


def test_nobody_has_the_identity_of_a_pid_that_does_not_exist() -> None:
    with pytest.raises(ProcessLookupError):
        identify(2**22 + 1)


def test_state_is_the_kernels_letter() -> None:
    with sleeper() as child:
        process = stopped(child)
        assert send_signal(process, signal.SIGCONT)
        until(lambda: state(process) == "S")


def test_a_command_name_with_parentheses_and_spaces_is_read_right(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "60"])
    try:
        process = identify(child.pid)
        until(lambda: state(process) == "S")
    finally:
        child.kill()
        child.wait()


def test_a_zombie_counts_as_gone() -> None:
    with sleeper() as child:
        process = identify(child.pid)
        child.send_signal(signal.SIGKILL)
        # Not reaped by anybody yet: Popen.wait comes at the end of the block.
        assert wait_gone([process], 5) == []
        assert Path(f"/proc/{child.pid}/stat").read_text().split()[2] == "Z"
        assert state(process) is None
        assert not send_signal(process, signal.SIGKILL)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs the number of the system call exit")
def test_a_zombie_whose_other_threads_work_on_is_not_gone() -> None:
    with python(LEADER_EXITS.format(exit_thread=60)) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = identify(child.pid)
        until(lambda: Path(f"/proc/{child.pid}/stat").read_text().split()[2] == "Z")
        assert state(process) == "Z"
        assert wait_gone([process], 0.05) == [process]
        assert send_signal(process, signal.SIGKILL)
        assert wait_gone([process], 5) == []


def test_another_process_with_the_same_pid_is_never_signalled() -> None:
    with sleeper() as child:
        process = identify(child.pid)
        for other in (replace(process, start_time=process.start_time - 1), replace(process, boot_id="another boot")):
            assert state(other) is None
            assert not send_signal(other, signal.SIGKILL)
            assert wait_gone([other], 0) == []
        assert child.poll() is None
        assert state(process) in ("S", "R")


def test_waiting_names_those_that_are_still_there_at_the_deadline() -> None:
    with sleeper() as stays, sleeper() as goes:
        staying, going = identify(stays.pid), identify(goes.pid)
        goes.kill()
        begin = time.monotonic()
        assert wait_gone([staying, going], 0.2) == [staying]
        assert 0.2 <= time.monotonic() - begin < 1


def test_processes_are_found_by_their_whole_token_and_by_nothing_less() -> None:
    token = new_token()
    with sleeper(token) as child, sleeper(token + "0"), sleeper(token[:-1]), sleeper():
        until(lambda: find_by_token(token))
        assert find_by_token(token) == [identify(child.pid)]
    assert find_by_token(token) == []
