"""UCX: ucx_perftest, once for each test that it lists; the low-level ones (UCT) on a transport that
is named, the others (UCP) on what UCX makes of rc_verbs and ud_verbs. No shared memory, no TCP."""

from case import Case, words

PACKAGES = ("ucx-utils",)
CLIENT = "UCX"
ENVIRONMENT = (("UCX_TLS", "rc_verbs,ud_verbs,self"), ("UCX_NET_DEVICES", "weft0:1"),
               ("UCX_WARN_UNUSED_ENV_VARS", "n"))

UCT_RC = ("am_lat", "put_lat", "add_lat", "get -D bcopy", "fadd", "cswap", "am_bw",
          "put_bw", "add_mr", "am_lat -D bcopy", "am_bw -D zcopy -s 4096", "put_lat -D bcopy",
          "put_bw -D zcopy -s 65536", "get -D zcopy -s 65536")
UCT_UD = ("am_lat", "am_bw -D bcopy -s 2048")
UCP = ("tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get",
       "ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap", "stream_bw", "stream_lat", "ucp_am_lat",
       "ucp_am_bw", "tag_bw -s 1000000", "ucp_put_bw -s 1000000", "ucp_get -s 1000000")


def pair(test, options="", env=(), **more):
    count = 200 if "1000000" in test else 5000
    common = words(f"ucx_perftest -t {test} {options} -n {count} -w 100 -f -p {{port}}")
    name = f"ucx_perftest {options.split('-x ')[-1]} {test}".replace("  ", " ")
    name = " ".join((name, *(f"{variable}={value}" for variable, value in env)))
    return Case(CLIENT, name, (*common, "127.0.0.1"), common, env=(*ENVIRONMENT, *env),
                expect=r"(\s+[\d.]+){5,}", timeout_s=120, **more)


CASES = (
    Case(CLIENT, "ucx_info -d", words("ucx_info -d"), env=ENVIRONMENT,
         expect=r"Transport: rc_verbs(.|\n)*Device: weft0:1"),
    *(pair(test, "-d weft0:1 -x rc_verbs") for test in UCT_RC),
    pair("swap", "-d weft0:1 -x rc_verbs", absent="rc_verbs has no swap, on any device"),
    *(pair(test, "-d weft0:1 -x ud_verbs") for test in UCT_UD),
    *(pair(test) for test in UCP),
    *(pair("tag_lat", env=(("UCX_IB_GID_INDEX", index),)) for index in ("0", "1", "3")),
)
