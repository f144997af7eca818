// Knows weft's own descriptors again. A program may close every descriptor that it finds (daemons
// do) and then get the same numbers for files of its own, which weft must never read, write or
// close. So each open file of weft's carries a mark: the signal that it would send if it were asked
// to send one, which it never is. One short system call to look; any thread, also after fork.
//
// The mark belongs to the open file, and whoever shares that can take it off: a file that is shared
// with peers is known by its inode as well.
#pragma once

namespace weft::host {

/// False: it is only the name of a file (O_PATH), which cannot be marked; a peer may have sent it.
bool mark_as_ours(int fd);
/// For a file that a peer has or will have, and that has an inode of its own. Until
/// forget_inode().
void know_by_inode(int fd);
void forget_inode(int fd);
/// The descriptor is open, and is what was marked or at least can be.
bool is_ours(int fd);

}  // namespace weft::host
