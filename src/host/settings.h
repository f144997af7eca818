// What the environment says about how far processes of one host let each other in, how they share
// an address, and how they poll. Read when it is asked for: by a process that opens its first
// device, by each controller and by each port. Any thread.
#pragma once

namespace weft::host {

/// WEFT_OWNER_CHECKS=on: no neighbour gets at this process's memory, nor this process at theirs.
/// What a peer wants read or written goes through the ring, and the owner's keys and page
/// protection decide about each of it.
bool owner_checks();
/// Unless WEFT_PTRACER=off, or the owner checks: neighbours may copy from and to this process also
/// where the Yama security module asks for that.
bool lets_others_trace();
/// Unless WEFT_ADDRESS_FILTER=off: a program in the kernel chooses which process of a shared
/// address gets a datagram. Without, whoever gets it hands it over, which costs more.
bool filters_addresses();
/// Unless WEFT_GIVE_WAY=off: a thread that polls in vain sleeps for moments where others wait for
/// its processor.
bool gives_way();
/// Unless WEFT_BUSY_WAIT=off: a call that waits for an event looks for it for some microseconds
/// before it sleeps, where messages have come so soon.
bool waits_busily();

}  // namespace weft::host
