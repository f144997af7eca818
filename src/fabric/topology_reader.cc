#include "fabric/topology_reader.h"

#include <array>
#include <charconv>

namespace weft::fabric {
namespace {

constexpr std::uint64_t kAnyGuid = ~std::uint64_t{0};

struct Cable {
  std::uint32_t node, port;
  std::string there;
  std::uint32_t there_port;
  std::uint32_t line, column;
};

struct NodeWord {
  std::string_view word;
  NodeKind kind;
};
constexpr std::array kNodeWords{
    NodeWord{"Switch", NodeKind::kSwitch}, NodeWord{"Hca", NodeKind::kEndpoint},
    NodeWord{"Ca", NodeKind::kEndpoint},   NodeWord{"Rt", NodeKind::kRouter},
    NodeWord{"Router", NodeKind::kRouter},
};

/// Lines that begin with these say something of the node that follows, or of the whole net.
constexpr std::array<std::string_view, 5> kGuidLines{"switchguid", "caguid", "rtguid", "hcaguid",
                                                     "routerguid"};
constexpr std::array<std::string_view, 14> kKnownLines{
    "vendid",  "devid", "sysimgguid", "width", "speed",   "speedext",  "netprefix",
    "basedev", "num",   "module",     "do",    "Chassis", "Hostname:", "DR"};

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  for (const std::string_view known : words) {
    if (word == known) return true;
  }
  return false;
}

class Reader {
 public:
  Parsed<Topology> read(std::string_view text);

 private:
  using Step = Parsed<bool>;  // the value says nothing

  Step read_line(LineScanner& line);
  Step read_node(LineScanner& line, NodeKind kind);
  Step read_port(LineScanner& line);
  Step read_guid(LineScanner& line);
  void read_node_comment(std::string_view comment, TopologyNode& node);
  void read_port_comment(std::string_view comment, TopologyPort& port, bool of_switch);
  Step lay(const Cable& cable);

  Topology topology_;
  std::vector<Cable> cables_;
  std::uint64_t guid_ = 0;
  std::uint32_t node_ = kNone;
};

/// The number after "lid " or "lmc " in a comment, which is free text.
std::uint32_t after(std::string_view comment, std::string_view word, std::uint32_t most) {
  const std::size_t found = comment.find(word);
  if (found == std::string_view::npos) return 0;
  std::uint32_t value = 0;
  const char* const begin = comment.data() + found + word.size();
  std::from_chars(begin, comment.data() + comment.size(), value);
  return value <= most ? value : 0;
}

/// Takes a description in quotes off a comment.
std::string take_description(std::string_view& comment) {
  const std::size_t open = comment.find('"');
  const std::size_t close = comment.rfind('"');
  if (open == std::string_view::npos || close == open) return {};
  std::string text(comment.substr(open + 1, close - open - 1));
  comment.remove_prefix(close + 1);
  return text;
}

void Reader::read_node_comment(std::string_view comment, TopologyNode& node) {
  node.description = take_description(comment);
  node.lid = Lid(static_cast<std::uint16_t>(after(comment, "lid ", 0xFFFF)));
  node.lmc = static_cast<std::uint8_t>(after(comment, "lmc ", 7));
}

/// A switch's: # "description" lid 7 4xQDR, which is the other end's LID. Another's begins with its
/// own: # lid 3 lmc 0 "description" lid 1 4xQDR.
void Reader::read_port_comment(std::string_view comment, TopologyPort& port, bool of_switch) {
  const std::size_t quote = comment.find('"');
  if (!of_switch && quote != std::string_view::npos) {
    const std::string_view own = comment.substr(0, quote);
    port.lid = Lid(static_cast<std::uint16_t>(after(own, "lid ", 0xFFFF)));
    port.lmc = static_cast<std::uint8_t>(after(own, "lmc ", 7));
  }
  take_description(comment);
  const std::size_t times = comment.rfind('x');
  if (times == std::string_view::npos || times == 0) return;
  std::size_t begin = times;
  while (begin > 0 && comment[begin - 1] >= '0' && comment[begin - 1] <= '9') --begin;
  std::uint32_t width = 0;
  std::from_chars(comment.data() + begin, comment.data() + times, width);
  if (width == 0 || width > 12) return;
  port.width = static_cast<std::uint8_t>(width);
  std::size_t end = times + 1;
  while (end < comment.size() && comment[end] > ' ' && end - times <= 10) ++end;
  port.speed = std::string(comment.substr(times + 1, end - times - 1));
}

Reader::Step Reader::read_guid(LineScanner& line) {
  if (!line.accept("=")) return line.expected("'=' and a GUID");
  const auto guid = line.number("a GUID", 0, kAnyGuid, 16);
  if (!guid) return tl::unexpected(guid.error());
  guid_ = *guid;
  return true;
}

Reader::Step Reader::read_node(LineScanner& line, NodeKind kind) {
  const auto ports = line.number("a number of ports", 1, kMostPorts);
  if (!ports) return tl::unexpected(ports.error());
  line.skip_blanks();
  const std::size_t name_at = line.at();
  auto name = line.quoted("the node's name");
  if (!name) return tl::unexpected(name.error());
  if (name->empty()) return line.refuse(name_at, "expected a name that is not empty");
  if (topology_.find(*name)) {
    return line.refuse(name_at, fmt::format("there is a node \"{}\" already", *name));
  }
  if (topology_.nodes.size() >= kMostNodes) return line.refuse(0, "too many nodes");
  node_ = topology_.add(kind, std::move(*name), static_cast<std::uint32_t>(*ports));
  TopologyNode& node = topology_.nodes[node_];
  node.guid = std::exchange(guid_, 0);
  // ibnetdiscover's names are the kind and the GUID.
  if (node.guid == 0 && node.name.size() == 18 && node.name[1] == '-') {
    std::from_chars(node.name.data() + 2, node.name.data() + 18, node.guid, 16);
  }
  line.skip_blanks();
  read_node_comment(line.rest(), node);
  return true;
}

Reader::Step Reader::read_port(LineScanner& line) {
  const std::size_t begun = line.at();
  if (node_ == kNone) return line.refuse(begun, "expected a node before its ports");
  line.accept("[");
  TopologyNode& node = topology_.nodes[node_];
  const auto number = line.number("a port", 1, node.ports.size());
  if (!number) return tl::unexpected(number.error());
  if (!line.accept("]")) return line.expected("']'");
  TopologyPort& port = node.port(static_cast<std::uint32_t>(*number));
  if (line.accept("[ext")) {  // ibnetdiscover --grouping
    const auto outside = line.number("the outside's number", 0, 0xFFFF);
    if (!outside) return tl::unexpected(outside.error());
    if (!line.accept("]")) return line.expected("']'");
  }
  if (line.accept("(")) {
    const auto guid = line.number("the port's GUID", 0, kAnyGuid, 16);
    if (!guid) return tl::unexpected(guid.error());
    port.guid = *guid;
    if (!line.accept(")")) return line.expected("')'");
  }
  line.skip_blanks();
  Cable cable{node_,
              static_cast<std::uint32_t>(*number),
              {},
              1,
              line.line_number(),
              static_cast<std::uint32_t>(line.at() + 1)};
  auto there = line.quoted("the name of the node at the other end");
  if (!there) return tl::unexpected(there.error());
  cable.there = std::move(*there);
  if (line.accept("[")) {
    const auto remote = line.number("the port at the other end", 1, kMostPorts);
    if (!remote) return tl::unexpected(remote.error());
    cable.there_port = static_cast<std::uint32_t>(*remote);
    if (!line.accept("]")) return line.expected("']'");
  }
  if (line.accept("(")) {
    const auto guid = line.number("the other port's GUID", 0, kAnyGuid, 16);
    if (!guid) return tl::unexpected(guid.error());
    if (!line.accept(")")) return line.expected("')'");
  }
  cables_.push_back(std::move(cable));
  // ibsim's options: w=4 s=2 e=1.
  while (!line.at_end()) {
    const std::size_t option_at = line.at();
    const std::string_view option = line.word();
    if ((option != "w" && option != "s" && option != "e") || !line.accept("=")) {
      return line.refuse(option_at, "expected w=, s= or e=, a comment or the line's end");
    }
    const auto value = line.number("a number", 0, 255);
    if (!value) return tl::unexpected(value.error());
  }
  read_port_comment(line.rest(), port, node.kind == NodeKind::kSwitch);
  return true;
}

Reader::Step Reader::read_line(LineScanner& line) {
  line.skip_blanks();
  if (line.rest().empty()) {
    node_ = kNone;
    return true;
  }
  if (line.at_end()) return true;
  if (line.rest().front() == '[') return read_port(line);
  const std::size_t begun = line.at();
  const std::string_view word = line.word();
  for (const NodeWord& known : kNodeWords) {
    if (word == known.word) return read_node(line, known.kind);
  }
  if (is_one_of(word, kGuidLines)) {
    node_ = kNone;
    return read_guid(line);
  }
  if (is_one_of(word, kKnownLines)) return true;
  return line.refuse(begun, "expected Switch, Hca, Ca, Rt, a port in brackets, or name=value");
}

/// Each end of a cable may say so; both must say the same.
Reader::Step Reader::lay(const Cable& cable) {
  const auto wrong = [&cable](std::string message) {
    return tl::unexpected(TextError{cable.line, cable.column, std::move(message)});
  };
  const auto there = topology_.find(cable.there);
  if (!there) return wrong(fmt::format("there is no node \"{}\"", cable.there));
  TopologyNode& node = topology_.nodes[cable.node];
  TopologyNode& other = topology_.nodes[*there];
  if (cable.there_port > other.ports.size()) {
    return wrong(
        fmt::format("expected a port of \"{}\" from 1 to {}", other.name, other.ports.size()));
  }
  if (*there == cable.node && cable.there_port == cable.port) {
    return wrong("a port cannot be connected to itself");
  }
  TopologyPort& here = node.port(cable.port);
  TopologyPort& end = other.port(cable.there_port);
  if (here.node == *there && here.port == cable.there_port) return true;  // the other end said so
  for (const auto& [port, owner] : {std::pair{&here, &node}, std::pair{&end, &other}}) {
    if (port->node == kNone) continue;
    return wrong(fmt::format("\"{}\"[{}] is connected to \"{}\"[{}] already", owner->name,
                             port - owner->ports.data() + 1, topology_.nodes[port->node].name,
                             port->port));
  }
  topology_.connect(cable.node, cable.port, *there, cable.there_port);
  return true;
}

Parsed<Topology> Reader::read(std::string_view text) {
  std::uint32_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    LineScanner line(text.substr(0, end), ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
    const Step step = read_line(line);
    if (!step) return tl::unexpected(step.error());
  }
  for (const Cable& cable : cables_) {
    const Step step = lay(cable);
    if (!step) return tl::unexpected(step.error());
  }
  if (topology_.nodes.empty()) {
    return tl::unexpected(TextError{number + 1, 1, "expected a node, and the file ends"});
  }
  return std::move(topology_);
}

}  // namespace

Parsed<Topology> read_topology(std::string_view text) { return Reader().read(text); }

}  // namespace weft::fabric
