"""Tests of a user's. Those whose name says so fail, and tests/integrations/pytest_test.py looks how."""


def test_a_program_sees_one_device(weft):
    assert "weft0" in weft.run("ibv_devices").stdout


def test_options_are_those_of_weft_run(weft_with):
    shown = weft_with(devices=["left", "right=127.0.0.9"], explain=True).run("ibv_devices").stdout
    assert "left" in shown and "right" in shown and "weft0" not in shown


def test_a_pair(weft):
    server = weft.start("ibv_rc_pingpong", "-d", "weft0", "-g", "0", "-p", "18531", "-n", "10")
    client = weft.run("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do"
                      " ibv_rc_pingpong -d weft0 -g 0 -p 18531 -n 10 127.0.0.1 && exit 0; sleep 0.5; done; exit 1")
    assert "10 iters" in client.stdout
    assert server.finish().returncode == 0


def test_pyverbs_could_be_used(weft):
    weft.run_python("-c", "import os; assert os.listdir('/sys/class/infiniband') == ['weft0']")


def test_fails_by_a_status(weft):
    weft.run("sh", "-c", "echo cause of the failure >&2; exit 3")


def test_fails_and_leaves_a_program(weft, tmp_path_factory):
    left = weft.start("sh", "-c", "echo still here; exec sleep 1000")
    while "still here" not in left.output()[0]:
        assert left.running()
    (tmp_path_factory.getbasetemp() / "left.pid").write_text(str(left.pid))
    assert False, "on purpose"


def test_fails_by_a_program_that_does_not_end(weft):
    weft.run("sleep", "1000", timeout=0.5)
