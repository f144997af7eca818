// `weft run --explain`: when something fails, one paragraph for a person says what was asked, what
// was granted and what is likely wrong. Without the option nothing here runs or remembers anything
// but one flag. With it, each queue pair remembers its latest requests, and each region who
// registered it. Any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "weft/result.h"
#include "weft/work.h"

struct ibv_qp;
struct ibv_mr;
struct ibv_wc;

namespace weft::shim {

struct Qp;
struct Context;

/// WEFT_EXPLAIN is set.
bool explaining();

/// A request as it was posted; its list is a copy.
struct NotedRequest {
  std::uint64_t wr_id = 0;
  SendOp op = SendOp::kSend;
  bool is_receive = false;
  std::vector<Sge> sges;
  RemoteAddress remote{};
};

/// The latest requests of a queue pair, oldest first.
class Notebook {
 public:
  void add(NotedRequest request);
  /// The oldest of that id, and forgets those before it.
  bool take(std::uint64_t wr_id, bool is_receive, NotedRequest* out);
  std::uint64_t receives() const { return receives_; }

 private:
  static constexpr std::size_t kMost = 8192;
  std::mutex mutex_;
  std::deque<NotedRequest> requests_;
  std::uint64_t receives_ = 0;
};

void note(Qp& qp, const SendRequest& request);
void note(Qp& qp, const ReceiveRequest& request);
/// `caller` is the address that the program's call returns to.
void note_region(const ibv_mr* mr, std::uint32_t access, const void* caller);
void forget_region(const ibv_mr* mr);

/// A call was refused, and the program got `error`.
void explain_call(const char* function, const std::string& object, const Error& error);
void explain_call(const char* function, const Qp& qp, const Error& error);
/// A call was not refused, but would be elsewhere.
void remark_on_call(const char* function, const std::string& object, const std::string& remark);
void remark_on_call(const char* function, const Qp& qp, const std::string& remark);
/// A request failed.
void explain_completion(Context& context, const ibv_wc& completion);

}  // namespace weft::shim
