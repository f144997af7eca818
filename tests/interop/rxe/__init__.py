"""Linux's own RoCEv2, rxe, as the peer of weft: in a virtual machine, on a tap in a network
namespace."""
