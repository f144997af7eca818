#include "obs/counters.h"

namespace weft::obs {
namespace {

constexpr CounterRow kTable[] = {
    {Counter::kFramesSent, "frames_sent", "frames", "frames handed to a port"},
    {Counter::kFramesReceived, "frames_received", "frames", "frames taken from a port"},
    {Counter::kBytesSent, "bytes_sent", "bytes", "payload bytes handed to a port"},
    {Counter::kBytesReceived, "bytes_received", "bytes", "payload bytes taken from a port"},
    {Counter::kMalformedFrames, "malformed_frames", "frames", "frames that no parser accepted"},
    {Counter::kBadChecksums, "bad_checksums", "frames", "frames whose ICRC did not match"},
    {Counter::kUnknownQueuePairs, "unknown_queue_pairs", "frames",
     "frames for a queue pair that does not exist"},
    {Counter::kWrongSource, "wrong_source", "frames",
     "frames for a connected queue pair from an address that is not its peer's"},
    {Counter::kWrongState, "wrong_state", "frames",
     "frames for a queue pair whose state does not take them"},
    {Counter::kWrongService, "wrong_service", "frames",
     "frames of another service than the queue pair's"},
    {Counter::kBadPartition, "bad_partition", "frames", "frames with another partition key"},
    {Counter::kBadQKey, "bad_qkey", "frames", "datagrams with another Q_Key"},
    {Counter::kDuplicates, "duplicates", "frames", "request frames that had arrived before"},
    {Counter::kSequenceGaps, "sequence_gaps", "frames", "request frames ahead of their turn"},
    {Counter::kStaleAcknowledgements, "stale_acknowledgements", "frames",
     "responses outside the window of outstanding requests"},
    {Counter::kRnrNaksSent, "rnr_naks_sent", "frames", "receiver-not-ready answers given"},
    {Counter::kNaksSent, "naks_sent", "frames", "negative acknowledgements given"},
    {Counter::kCongestionNoticesSent, "congestion_notices_sent", "frames",
     "peers told that their frames came marked"},
    {Counter::kCongestionNotices, "congestion_notices", "frames",
     "times that a peer told of marked frames"},
    {Counter::kRetransmissions, "retransmissions", "events", "times that a requester went back"},
    {Counter::kTimeouts, "timeouts", "events", "acknowledgement timers that ran out"},
    {Counter::kRefusedAccesses, "refused_accesses", "requests",
     "remote accesses that key, range or rights did not allow"},
    {Counter::kLimitedAccesses, "limited_accesses", "frames",
     "writes of an unreliable service that were not looked at after too many wrong keys"},
    {Counter::kDroppedMessages, "dropped_messages", "messages",
     "messages of an unreliable service that were dropped"},
    {Counter::kRefusedMessages, "refused_messages", "messages",
     "messages of connection managers whose addresses or numbers are not those of the connection"},
    {Counter::kVanishedMemory, "vanished_memory", "accesses",
     "accesses to registered memory that was no longer there"},
    {Counter::kCompletionOverruns, "completion_overruns", "completions",
     "completions lost because their queue was full"},
    {Counter::kAsyncEventsDropped, "async_events_dropped", "events",
     "asynchronous events that nobody fetched in time"},
    {Counter::kRawUnclaimed, "raw_unclaimed", "packets",
     "packets at a raw port that no queue pair had claimed"},
    {Counter::kRawMalformed, "raw_malformed", "packets",
     "raw packets whose version or lengths are wrong, or that were too long to be taken whole"},
    {Counter::kRawBadExtensions, "raw_bad_extensions", "packets",
     "raw packets with too many or broken IPv6 extension headers"},
    {Counter::kRawJumbos, "raw_jumbos", "packets", "raw packets with a jumbo payload"},
    {Counter::kRawSpoofed, "raw_spoofed", "packets",
     "raw packets with a source address that is not their sender's"},
};
static_assert(std::size(kTable) == static_cast<std::size_t>(Counter::kCount));

}  // namespace

std::span<const CounterRow> counter_table() { return kTable; }

}  // namespace weft::obs
