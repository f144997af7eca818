"""qperf: latency, bandwidth and rates; ver_* check the values of atomics. Without -cm it addresses
its peer by LID, as on InfiniBand; with -cm it asks rdma_cm."""

from case import Case, words

PACKAGES = ("qperf",)
CLIENT = "qperf"
TESTS = ("rc_lat", "rc_bw", "rc_bi_bw", "uc_lat", "uc_bw", "uc_bi_bw", "ud_lat", "ud_bw",
         "ud_bi_bw", "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw",
         "rc_rdma_write_lat", "rc_rdma_write_poll_lat", "uc_rdma_write_bw", "uc_rdma_write_lat",
         "uc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr",
         "ver_rc_compare_swap", "ver_rc_fetch_add")
WITH_CM = ("rc_lat", "rc_bw", "rc_rdma_read_bw", "rc_rdma_write_lat", "ver_rc_fetch_add")


def pair(test, options="", weft=()):
    name = " ".join(["qperf", *weft[1:], test, *options.split()])
    return Case(CLIENT, name, words(f"qperf -lp {{port}} -t 1 {options} 127.0.0.1 {test}"),
                words("qperf -lp {port}"), expect=r"^\s+\w+\s+=\s+[\d.]+", server_ends=False,
                weft=weft)


CASES = (
    *(pair(test, weft=words("--link-layer ib")) for test in TESTS),
    *(pair(test, "-cm 1") for test in WITH_CM),
)
