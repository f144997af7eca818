// A hostile initiator against the target's side of a link: records with any header and any payload,
// in any order. Whatever comes, nothing crashes, memory is written only inside the granted range
// and the receive buffers, a record is not written beyond its end, nothing is read from outside,
// and each receive is completed at most once.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "memory/flight.h"
#include "path/neighbour_initiator.h"
#include "path/neighbour_service.h"
#include "support/byte_feed.h"
#include "support/guarded_end.h"

namespace weft::test {
namespace {

using path::Ask;
using path::RemotePart;

constexpr std::size_t kOwnBytes = 2048;
constexpr Qpn kOurs{0x11}, kTheirs{0x22};

Gid address_of(std::uint8_t last) {
  Gid gid{};
  gid.raw[15] = last;
  return gid;
}

class OneQueuePair final : public path::QueuePairTable {
 public:
  explicit OneQueuePair(queue::QueuePair& qp) : qp_(qp) {}
  queue::QueuePair* find(Qpn qpn) override {
    if (qpn != qp_.qpn) return nullptr;
    memory::Flight::publish(memory::Hold::kPeer, &qp_);
    return &qp_;
  }

 private:
  queue::QueuePair& qp_;
};

EndSetup setup_from(ByteFeed& feed) {
  const Service services[] = {Service::kReliableConnection, Service::kReliableConnection,
                              Service::kUnreliableConnection, Service::kUnreliableDatagram};
  EndSetup setup;
  setup.service = feed.pick(services);
  setup.limits = {4, 16, 1, 1, 0};
  setup.completions = 64;
  setup.memory_bytes = 16 * 1024;
  setup.state = QpState::kReadyToReceive;
  setup.attributes.remote_gid = address_of(2);
  setup.attributes.qkey = QKey(0x1234);
  setup.attributes.access = kAllRemote;
  return setup;
}

/// A link back that nobody listens on: the target's half of a path needs one, and never uses it.
std::shared_ptr<host::Outbound> idle_link() {
  static const auto link = std::make_shared<host::Outbound>(
      host::LocalSocket(), host::RingProducer::create().value(), 0);
  return link;
}

/// All of it: the payload goes on behind the record's first line.
std::byte* payload_of(host::Record& record) {
  return reinterpret_cast<std::byte*>(&record) + host::kRecordPayloadAt;
}

class Drill {
 public:
  explicit Drill(ByteFeed& feed)
      : feed_(feed),
        end_(setup_from(feed), kOurs, kTheirs),
        table_(end_.qp),
        watch_(end_, kOwnBytes) {
    if (end_.qp.service != Service::kUnreliableDatagram) {
      end_.qp.path =
          path::make_neighbour_path(end_.qp, idle_link(), *host::ProcessPage::mine().value());
    }
    link_.ring = host::RingConsumer(
        host::SharedMemory::receive(dup(producer_.fd()), host::kRingMemoryBytes,
                                    host::kRingMemoryBytes, host::SharedMemory::Peers::kWrite)
            .value());
    link_.addresses = {address_of(1), address_of(2)};
    once_ = end_.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
    reader_ = end_.expose(Access::kRemoteRead);
  }

  void run() {
    for (int i = 0; i < 300 && !feed_.empty(); ++i) {
      if (feed_.below(6) == 0) {
        watch_.post_receive(feed_.below(5) * 300);
      } else {
        hear();
      }
      watch_.check();
    }
    queue::fail_queue_pair(end_.qp);
    queue::flush(end_.qp);
    watch_.check_flushed();
  }

 private:
  void hear() {
    const std::uint32_t sizes[] = {0, 8, 24, 32, 40, 32 + 64, 1000, 28, 32 + 2048};
    const std::uint32_t bytes = feed_.pick(sizes);
    host::Record* record = producer_.reserve(bytes);
    WEFT_ASSERT(record != nullptr);
    host::RecordHeader header;
    header.kind = feed_.below(16) == 0 ? std::uint8_t(2 + feed_.below(254))
                                       : std::uint8_t(std::uint8_t(Ask::kSend) + feed_.below(9));
    const std::uint8_t port = feed_.below(8) == 0 ? feed_.byte() & 0xE0 : 1 << path::kPortShift;
    header.flags = static_cast<std::uint8_t>((feed_.byte() & 0x1F) | port);
    header.destination = feed_.below(16) == 0 ? feed_.word() : kOurs.value;
    header.source = feed_.below(16) == 0 ? feed_.word() : kTheirs.value;
    header.sequence = feed_.below(8) == 0 ? feed_.word() : sequence_;
    const std::uint32_t lengths[] = {bytes, bytes, 8, 64, 4096, 0xFFFFFFFF, 1u << 31, 0};
    header.length = feed_.pick(lengths);
    header.bytes = bytes;
    header.immediate = feed_.below(4) == 0 ? once_.rkey.value : feed_.byte();
    std::memset(payload_of(*record), 0x77, bytes);
    write_part(*record, header.kind, bytes);
    producer_.publish(header, {nullptr, 0});

    host::RingConsumer::Taken taken;
    WEFT_ASSERT(link_.ring.take(&taken));
    const std::size_t room = taken.header.lines * host::kLine - host::kRecordPayloadAt;
    std::byte* const payload = payload_of(*taken.record);
    std::memset(payload + bytes, 0x55, room - bytes);
    path::RecordService(table_, link_, last_).serve(taken);
    for (std::size_t i = bytes; i < room; ++i) {
      WEFT_ASSERT(payload[i] == std::byte{0x55});
    }
    WEFT_ASSERT(!Watch::leaks({payload, bytes}));
    WEFT_ASSERT(path::answer_in(taken.record->status) <= path::Answer::kLast);
    follow(taken);
    link_.ring.give_back();
    host::RingProducer::Answered answered;
    while (producer_.peek(&answered)) producer_.pop();
  }

  /// The sequence that the target expects next.
  void follow(const host::RingConsumer::Taken& taken) {
    const bool done = path::answer_in(taken.record->status) == path::Answer::kDone;
    if (taken.header.kind != std::uint8_t(Ask::kSends)) {
      sequence_ += done ? 1 : 0;
    } else if (taken.header.sequence == sequence_) {
      sequence_ += done ? sends_ : taken.record->executed;
    }
  }

  /// Short sends of any length, mostly such that they fit.
  void write_sends(host::Record& record, std::uint32_t bytes) {
    sends_ = 0;
    for (std::uint32_t at = 0; at + sizeof(path::ShortSend) <= bytes; ++sends_) {
      const std::uint16_t lengths[] = {0,  8,   8,      3,
                                       64, 300, 0xFFFF, static_cast<std::uint16_t>(bytes - at - 4)};
      const path::ShortSend message{feed_.pick(lengths), feed_.byte(), 0};
      std::memcpy(payload_of(record) + at, &message, sizeof message);
      at += path::short_send_bytes(message.bytes);
    }
  }

  void write_part(host::Record& record, std::uint8_t kind, std::uint32_t bytes) {
    if (kind == std::uint8_t(Ask::kSends)) return write_sends(record, bytes);
    if (bytes < sizeof(RemotePart)) return;
    if (kind == std::uint8_t(Ask::kDatagram)) {
      path::DatagramPart part{};
      part.qkey = feed_.below(8) == 0 ? feed_.word() : 0x1234;
      part.flow_label = feed_.word();
      part.traffic_class = feed_.byte();
      std::memcpy(payload_of(record), &part, std::min<std::size_t>(bytes, sizeof part));
      return;
    }
    const RemoteKey keys[] = {
        end_.exposed.rkey, end_.exposed.rkey,       once_.rkey,
        reader_.rkey,      RemoteKey(feed_.word()), RemoteKey(end_.own.lkey.value)};
    const std::uint64_t places[] = {0, 0, 8, end_.exposed_bytes() - 8, end_.exposed_bytes()};
    RemotePart part{};
    part.address = end_.remote().address + feed_.pick(places) +
                   static_cast<std::uint64_t>(feed_.offset() / 16);
    part.key = feed_.pick(keys).value;
    part.offset = feed_.byte();
    part.compare = feed_.byte();
    part.operand = feed_.byte();
    std::memcpy(payload_of(record), &part, sizeof part);
  }

  ByteFeed& feed_;
  QueueEnd end_;
  OneQueuePair table_;
  Watch watch_;
  memory::RegionKeys once_, reader_;
  host::RingProducer producer_ = host::RingProducer::create().value();
  host::Inbound link_;
  path::LastServed last_;
  std::uint32_t sequence_ = 0;
  std::uint32_t sends_ = 0;  ///< messages in the last kSends
};

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::test::ByteFeed feed({data, size});
  weft::test::Drill(feed).run();
  return 0;
}
