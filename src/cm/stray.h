// What is answered to a message that is for nobody here, so that its sender stops waiting.
// Stateless, any thread.
#pragma once

#include <optional>

#include "cm/message.h"

namespace weft::cm {

/// Nothing: it needs no answer.
std::optional<Message> answer_to_stray(const Message& message);

}  // namespace weft::cm
