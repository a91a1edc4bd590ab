#include "grammar/grammar.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "core/fail.h"

namespace quire {

Result<Grammar> Grammar::create(Node start, std::size_t node_count, std::vector<FromEdge> edges,
                                const std::vector<Node>& ends) {
  std::stable_sort(edges.begin(), edges.end(), [](const FromEdge& a, const FromEdge& b) { return a.from < b.from; });
  Grammar grammar;
  grammar.start_ = start;
  grammar.edge_begins_.assign(node_count + 1, 0);
  for (const auto& [from, edge] : edges) {
    ++grammar.edge_begins_[from + 1];
    grammar.edges_.push_back(edge);
  }
  for (std::size_t i = 0; i < node_count; ++i) grammar.edge_begins_[i + 1] += grammar.edge_begins_[i];
  grammar.find_ways_out(edges, ends);
  if (grammar.way_out(start) == kNoWayOut) {
    return fail(Errc::invalid_argument, "no text of at most {} bytes satisfies the grammar", kLongestWayOut);
  }
  grammar.classify_bytes();
  return grammar;
}

// Dijkstra backwards from the ends of all rules; a call's length is known when both the rule's and the rest's are.
void Grammar::find_ways_out(const std::vector<FromEdge>& edges, const std::vector<Node>& ends) {
  const std::size_t node_count = edge_begins_.size() - 1;
  std::vector<std::vector<std::uint32_t>> edges_to(node_count);  // edges whose length depends on the node
  for (std::uint32_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i].edge;
    edges_to[edge.target].push_back(i);
    if (edge.kind == Edge::Kind::call) edges_to[edge.callee].push_back(i);
  }
  way_out_.assign(node_count, kNoWayOut);
  std::vector<bool> settled(node_count);
  using Entry = std::pair<std::uint32_t, Node>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  for (const Node end : ends) {
    way_out_[end] = 0;
    queue.emplace(0, end);
  }
  while (!queue.empty()) {
    const Node node = queue.top().second;
    queue.pop();
    if (settled[node]) continue;
    settled[node] = true;
    for (const std::uint32_t i : edges_to[node]) {
      const auto& [from, edge] = edges[i];
      std::uint32_t length = way_out_[edge.target] + (edge.kind == Edge::Kind::bytes ? 1 : 0);
      if (edge.kind == Edge::Kind::call) {
        if (!settled[edge.callee] || !settled[edge.target]) continue;
        length += way_out_[edge.callee];
      }
      if (length < way_out_[from]) {
        way_out_[from] = length;
        queue.emplace(length, from);
      }
    }
  }
}

void Grammar::classify_bytes() {
  std::bitset<257> borders;
  borders.set(0);
  for (const Edge& edge : edges_) {
    if (edge.kind != Edge::Kind::bytes) continue;
    borders.set(edge.first);
    borders.set(edge.last + std::size_t{1});
  }
  std::size_t classes = 0;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (borders.test(byte)) ++classes;
    class_of_[byte] = static_cast<std::uint8_t>(classes - 1);
  }
  class_count_ = classes;
}

Result<Grammar> Grammar::limited_to(const std::bitset<256>& bytes) const {
  std::vector<FromEdge> edges;
  std::vector<Node> ends;
  for (Node node = 0; node < node_count(); ++node) {
    if (ends_rule(node)) ends.push_back(node);
    for (const Edge& edge : this->edges(node)) {
      if (edge.kind != Edge::Kind::bytes) {
        edges.push_back({node, edge});
        continue;
      }
      for (unsigned first = edge.first; first <= edge.last; ++first) {
        if (!bytes.test(first)) continue;
        unsigned last = first;
        while (last < edge.last && bytes.test(last + 1)) ++last;
        edges.push_back({node, edge});
        edges.back().edge.first = static_cast<std::uint8_t>(first);
        edges.back().edge.last = static_cast<std::uint8_t>(last);
        first = last;
      }
    }
  }
  return create(start_, node_count(), std::move(edges), ends);
}

}  // namespace quire
