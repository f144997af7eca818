"""What weft and rxe do with each other. Words in braces are filled in for each side: {device} and
{gid} of the side itself, {host} of the server, {control} its address for what is agreed beside the
queue pairs, {port}. Cases of one program run on the far side alone, where both of its ends are."""

import dataclasses
import re

ROW = r"^\s*\d+\s+\d+(\s+[\d.]+){2,}"  # perftest: size, iterations, then the figures
ITERATIONS = r"iters in"
MOVED = r"^data transfers complete(.|\n)*^return status 0"
FAMILIES = ("IPv4", "IPv6")


@dataclasses.dataclass(frozen=True)
class Case:
    """One pair of programs, or (server "") one program. `cm`: they meet by the connection manager,
    and no TCP port is seen."""
    name: str
    server: str
    client: str
    expect: str
    expect_server: str = ""
    cm: bool = False
    families: tuple = FAMILIES
    limit_s: int = 30
    port: int = 0  # that the program has and does not let us choose
    quick: bool = False  # a part of `make test`
    quick_server: bool = False  # its server must not be slower than its client
    weft_only: bool = False  # of no use with rxe

    def survives_loss(self):
        """Datagrams and unreliable connections lose what is lost, and these programs wait for it."""
        return not re.search(r"_u[cd]_|-c U|udaddy", self.name)


def pingpong(service, options, gid="{gid}", **more):
    words = f"ibv_{service}_pingpong -d {{device}} -g {gid} -p {{port}} -n 40 {options}"
    return Case(f"ibv_{service}_pingpong {options}", words, words + " {control}", ITERATIONS,
                ITERATIONS, **more)


def link_local(service, options, **more):
    """Both name their link-local GIDs, which devices of weft understand from each other."""
    case = pingpong(service, options, gid="1", weft_only=True, **more)
    return dataclasses.replace(case, name=case.name.replace("pingpong", "pingpong -g 1"))


def perftest(program, options, **more):
    words = f"{program} -F -d {{device}} -x {{gid}} -p {{port}} {options}"
    return Case(f"{program} {options}", words, words + " {control}", ROW, **more)


def by_manager(program, options):
    """perftest's server listens twice, and its client does not wait for the second time."""
    words = f"{program} -F -R -p {{port}} {options}"
    return Case(f"{program} -R {options}", words, words + " {host}", ROW, cm=True,
                families=("IPv4",), quick_server=True)


def trial(name):
    words = f"trial {name} -d {{device}} -g {{gid}}"
    return Case(f"trial {name}", words, words + " {control}", f"{name}: right", f"{name}: right",
                limit_s=70, port=18599)


def alone(name, words, expect="", **more):
    return Case(name, "", words, expect, families=("IPv4",), limit_s=150, **more)


def channel_case(name, preload=""):
    """One of tests/system/channel_cases.cc, with both ends on the far side."""
    words = f"env WEFT_CASES_ADDRESS={{host}} {preload} channel_cases {name}"
    return alone(f"channel_cases {name}", words)


# What the channel library does on any device, on one that pins memory above all.
CHANNEL_CASES = (
    "messages_of_all_sizes", "the_busy_one_of_a_thousand_grows", "memory_of_a_connection",
    "shrinks_and_gives_memory_back", "growing_leaves_no_memory_behind", "a_budget_is_kept",
    "waiting_ends_with_its_deadline", "closing_delivers", "threads_use_different_channels",
    "a_descriptor_wakes_the_sleeper", "a_message_is_copied_where_the_caller_wants_it",
    "a_view_outlives_its_channel", "small_messages_travel_in_batches",
    "windows_are_closed_by_either_end", "a_loan_can_be_taken_back",
    "lean_channels_sleep_and_wake", "a_killed_peer_is_noticed", "memory_is_given_back_and_used_again",
    "strict_memory_is_given_back_and_used_again", "freed_memory_leaves_the_resident_size",
    "strict_freed_memory_leaves_the_resident_size", "an_old_key_is_refused",
    "a_strict_receivers_old_key_is_refused", "a_host_that_cannot_be_reached",
    "a_port_where_nobody_listens", "a_listener_that_rejects", "a_listener_of_another_protocol",
    "a_budget_that_has_no_room")

CASES = (
    pingpong("rc", "-s 64"),
    pingpong("rc", "-s 3000", quick=True),
    pingpong("rc", "-s 100000"),
    pingpong("uc", "-s 64"),
    pingpong("uc", "-s 3000"),
    pingpong("ud", "-s 512", quick=True),
    pingpong("srq", "-s 2000 -q 4"),
    link_local("rc", "-s 3000", quick=True),
    link_local("ud", "-s 512"),
    perftest("ib_send_lat", "-s 100 -n 40"),
    perftest("ib_send_lat", "-c UC -s 3000 -n 40"),
    perftest("ib_send_lat", "-c UD -s 500 -n 40"),
    perftest("ib_send_bw", "-s 65536 -n 100"),
    perftest("ib_write_lat", "-s 3000 -n 40"),
    perftest("ib_write_bw", "-s 65536 -n 100"),
    perftest("ib_write_bw", "-c UC -s 4000 -n 100"),
    perftest("ib_read_lat", "-s 3000 -n 40", quick=True),
    perftest("ib_read_bw", "-s 65536 -n 100"),
    perftest("ib_atomic_lat", "-A CMP_AND_SWAP -n 40"),
    perftest("ib_atomic_lat", "-A FETCH_AND_ADD -n 40"),
    perftest("ib_atomic_bw", "-A FETCH_AND_ADD -n 200"),
    trial("late-receiver"),
    trial("no-receiver"),
    trial("wrong-key"),
    trial("beyond"),
    trial("long-write"),
    trial("long-read"),
    Case("rping", "rping -s -a {host} -p {port} -C 5 -V", "rping -c -v -a {host} -p {port} -C 5 -V",
         r"^ping data: rdma-ping-4", cm=True, quick=True),
    Case("rping -S 60000", "rping -s -a {host} -p {port} -C 3 -V -S 60000",
         "rping -c -v -a {host} -p {port} -C 3 -V -S 60000", r"^ping data: rdma-ping-2", cm=True),
    Case("ucmatose", "ucmatose -b {host} -p {port} -c 2 -C 5",
         "ucmatose -s {host} -p {port} -c 2 -C 5", MOVED, MOVED, cm=True),
    Case("udaddy", "udaddy -b {host} -c 1 -C 5", "udaddy -s {host} -c 1 -C 5", MOVED, MOVED,
         cm=True, port=7174, quick=True),
    by_manager("ib_write_bw", "-s 65536 -n 100"),
    by_manager("ib_send_lat", "-s 100 -n 40"),
    Case("channel_pair", "channel_pair serve {host} {port}", "channel_pair call {host} {port}",
         r"^channels: right", r"^channels: right", cm=True, limit_s=240),
    Case("weft demo of two hosts",
         "weft-channel demo --channels 20 --seconds 6 --address {host} --await {port}",
         "weft-channel demo --channels 20 --seconds 6 --address {host} --meet {control}:{port}", "",
         r"^Every message arrived whole, in order and once", families=("IPv4",), limit_s=150),
    *(channel_case(name) for name in CHANNEL_CASES),
    channel_case("the_order_of_the_figures", "LD_PRELOAD={tracer}"),
    alone("weft demo", "weft-channel demo --channels 20 --seconds 6 --address {host}",
          r"^Every message arrived whole, in order and once"),
)
