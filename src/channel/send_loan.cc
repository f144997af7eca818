// Messages that the peer reads where they are. A loan is open from lend() until the peer has closed
// its window by its last message (or, where the device has no windows, has said that it read),
// until a recall was heeded, or until this end revokes the key.
#include <algorithm>

#include "channel/send_half.h"

namespace weft::channel {

bool SendHalf::open_loan(std::span<const std::byte> message, std::uint64_t total) {
  auto region = wires_.lend(message);
  if (!region) return false;
  const bool returns = region->window && settings_.loan_end == LoanEnd::kPeerCloses;
  const Offer offer{reinterpret_cast<std::uint64_t>(message.data()),
                    message.size(),
                    total,
                    region->remote_key.value,
                    ++offers_,
                    returns ? 1u : 0u,
                    0};
  if (region->window) {
    outlet_.post({.op = Work::Op::kBind,
                  .local = region->memory,
                  .local_key = region->local_key,
                  .length = static_cast<std::uint32_t>(message.size()),
                  .remote_key = region->remote_key,
                  .handle = region->handle});
  }
  store(append(Kind::kOffer, sizeof offer), offer);
  make_cold().loans.push_back({*region, offer.number, total != 0, returns});
  ++figures_.loans;
  figures_.bytes += message.size();
  if (total != 0) ++figures_.messages;
  return true;
}

std::uint32_t SendHalf::lend(std::span<const std::byte> message) {
  if (!error_.empty() || closed_ || rest_ > 0 || make_cold().loans.size() >= kOffersMost) return 0;
  if (state_ == State::kLeaving || (state_ == State::kAsked && settings_.strict)) return 0;
  if (!make_room(kRecordBytes + sizeof(Offer)) || !outlet_.has_room()) return 0;
  if (!open_loan(message, message.size())) return 0;
  post_frame();
  return offers_;
}

std::uint64_t SendHalf::take_lent(std::span<const iovec> vector, std::uint64_t total) {
  const iovec& element = vector[0];
  if (lent_number_ != 0) {  // one at a time: another one waits
    if (!is_lent(element) || !loan_done(lent_number_)) return 0;
    lent_number_ = 0;
    return element.iov_len;
  }
  if (make_cold().loans.size() >= kOffersMost || !outlet_.has_room() ||
      !make_room(kRecordBytes + sizeof(Offer)) || !outlet_.has_room()) {
    return 0;
  }
  if (!open_loan({static_cast<const std::byte*>(element.iov_base), element.iov_len},
                 rest_ == 0 ? total : 0)) {  // no key for it: in pieces then
    const std::uint64_t taken = take_pieces(vector, total, total);
    post_frame();
    return taken;
  }
  if (rest_ == 0) rest_ = total;
  rest_ -= element.iov_len;
  cold_->lent_memory = element.iov_base, cold_->lent_bytes = element.iov_len;
  lent_number_ = offers_;
  post_frame();
  return 0;
}

bool SendHalf::loan_done(std::uint32_t number) const {
  if (loans_ended_) return true;
  const auto& loans = cold().loans;
  return std::none_of(loans.begin(), loans.end(), [number](const Loan& loan) {
    return loan.number == number && !loan.revoked;
  });
}

// Reads end in order, and so do the messages that close their windows.
void SendHalf::on_returned(RemoteKey key) {
  if (cold_ == nullptr || loans_ended_) return;
  for (Loan& loan : cold_->loans) {
    if (!loan.region.window || loan.region.remote_key != key) continue;
    loan.region.closed = true;
    return settle_loans();
  }
}

void SendHalf::settle_loans() {
  if (cold_ == nullptr) return;
  for (std::size_t i = 0; i < cold_->loans.size();) {
    Loan& loan = cold_->loans[i];
    const bool left = loan.recalled && has_offer(peer_left_, loan.number);
    if (!left && !is_over(loan)) {
      ++i;
      continue;
    }
    if (!loan.revoked) {
      end_loan(loan, left);
    } else if (!left) {  // it had been read, and somebody was told that it never would be
      fail("the peer had read a message that was taken back without its answer");
      return;
    }
    cold_->loans.erase(cold_->loans.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool SendHalf::is_over(Loan& loan) {
  if (loan.region.closed) return true;
  if (loan.returns && !loan.revoked) return false;
  if (static_cast<std::int32_t>(peer_pulled_ - loan.number) < 0) return false;
  if (!loan.region.window || loan.revoked) return true;
  if (loan.closing == 0 && outlet_.has_room()) {
    loan.closing = outlet_.post(
        {.op = Work::Op::kInvalidate, .remote_key = loan.region.remote_key, .signaled = true});
  }
  loan.region.closed = loan.closing != 0 && outlet_.done(loan.closing);
  return loan.region.closed;
}

// What was left counts as never sent: of a message in pieces the piece is still to come.
void SendHalf::end_loan(Loan& loan, bool left) {
  if (left) {
    cold_->left.push_back(loan.number);
    figures_.bytes -= loan.region.length;
    if (loan.begins) --figures_.messages;
    if (loan.number == lent_number_) {
      rest_ = loan.begins ? 0 : rest_ + loan.region.length;
      lent_number_ = 0;
    }
  }
  wires_.give_back(loan.region);
}

void SendHalf::recall(std::uint32_t number) {
  for (Loan& loan : make_cold().loans) {
    if (loan.number != number || loan.recalled) continue;
    loan.recalled = true;
    status_wanted_ = true;
  }
}

void SendHalf::revoke(std::uint32_t number) {
  recall(number);
  for (Loan& loan : cold_->loans) {
    if (loan.number != number || loan.revoked) continue;
    end_loan(loan, true);
    loan.revoked = true;
  }
}

bool SendHalf::was_left(std::uint32_t number) {
  return loans_ended_ || std::erase(make_cold().left, number) > 0;
}

std::uint32_t SendHalf::recalled_offers() const {
  const auto& loans = cold().loans;
  if (loans.empty()) return 0;
  std::uint32_t set = offer_set(loans.front().number);
  for (const Loan& loan : loans) {
    if (loan.recalled) set = with_offer(set, loan.number);
  }
  return set;
}

void SendHalf::end_loans() {
  loans_ended_ = true;
  if (cold_ == nullptr) return;
  for (Loan& loan : cold_->loans) {
    if (!loan.revoked) wires_.give_back(loan.region);
  }
  cold_->loans.clear();
}

}  // namespace weft::channel
