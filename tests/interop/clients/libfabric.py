"""libfabric: fi_pingpong with its data checks, on connected endpoints, on datagrams, and on
reliable datagrams made of the former."""

from case import Case, words

PACKAGES = ("libfabric-bin",)
CLIENT = "libfabric"
ROW = r"^\d+[kmg]?\s+\d+\s+=?\d+[kmg]?\s+\S+\s+[\d.]+s"


def pingpong(provider, options, **more):
    """The port is the control connection's."""
    common = ("fi_pingpong", "-p", provider, *options.split(), "-c")
    return Case(CLIENT, f"fi_pingpong -p '{provider}' {options}",
                (*common, "-P", "{port}", "127.0.0.1"), (*common, "-B", "{port}"), expect=ROW,
                timeout_s=60, **more)


CASES = (
    Case(CLIENT, "fi_info -p verbs", words("fi_info -p verbs"), expect=r"domain: weft0"),
    pingpong("verbs", "-e msg"),
    pingpong("verbs", "-e dgram"),
    pingpong("verbs;ofi_rxm", "-e rdm"),
    pingpong("verbs;ofi_rxm", "-e rdm -m tagged"),
)
