"""A program in Python that uses pyverbs."""

from pyverbs.device import Context, get_device_list
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE
from pyverbs.mr import MR
from pyverbs.pd import PD

name = get_device_list()[0].name.decode()
with Context(name=name) as context, PD(context) as domain:
    with MR(domain, 4096, IBV_ACCESS_LOCAL_WRITE) as region:
        region.write("hello", 5)
        assert region.read(5, 0) == b"hello"
print("opened", name)
