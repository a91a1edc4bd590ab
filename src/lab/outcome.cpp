#include "lab/outcome.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/statistics.h"

namespace quire::lab {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Axis& axis) { return {{"name", axis.name}, {"unit", axis.unit}, {"logarithmic", axis.logarithmic}}; }

const char* name(Style style) {
  switch (style) {
    case Style::line:
      return "line";
    case Style::points:
      return "points";
    case Style::bars:
      return "bars";
    case Style::reference:
      return "reference";
  }
  return "line";
}

Json to_json(const Chart& chart) {
  Json out{{"title", chart.title}, {"x", to_json(chart.x)}, {"y", to_json(chart.y)}};
  if (!chart.categories.empty()) out["categories"] = chart.categories;
  out["note"] = chart.note;
  out["series"] = Json::array();
  for (const Series& series : chart.series) {
    Json one{{"name", series.name}, {"unit", chart.y.unit}, {"style", name(series.style)}, {"points", Json::array()}};
    for (const Point& p : series.points) {
      Json point{{"x", p.x}, {"y", p.y}, {"low", p.low}, {"high", p.high}};
      if (!p.label.empty()) point["label"] = p.label;
      one["points"].push_back(std::move(point));
    }
    out["series"].push_back(std::move(one));
  }
  return out;
}

Json to_json(const HeatMap& map) {
  return {{"title", map.title},     {"x", to_json(map.x)}, {"y", to_json(map.y)},  {"value", map.value},
          {"columns", map.columns}, {"rows", map.rows},    {"values", map.values}, {"logarithmic", map.logarithmic}};
}

Json to_json(const Table& table) { return {{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}}; }

Json to_json(const Texts& texts) {
  Json out{{"title", texts.title}, {"beginning", texts.beginning}, {"versions", Json::array()}};
  for (const Texts::Version& v : texts.versions) {
    out["versions"].push_back({{"name", v.name}, {"same", v.same}, {"rest", v.rest}});
  }
  return out;
}

template <class T>
Json to_array(const std::vector<T>& values) {
  Json out = Json::array();
  for (const T& value : values) out.push_back(to_json(value));
  return out;
}

}  // namespace

Point median_point(double x, std::vector<double> samples) {
  std::ranges::sort(samples);
  return {x, percentile(samples, 0.5), percentile(samples, 0.1), percentile(samples, 0.9)};
}

Point mean_point(double x, std::span<const double> samples) {
  const auto n = static_cast<double>(samples.size());
  if (samples.empty()) return exact_point(x, 0);
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return point_with_error(x, mean, n > 1 ? std::sqrt(squares / n / (n - 1)) : 0);
}

Point perplexity_point(double x, std::span<const double> losses, std::string label) {
  const Point loss = mean_point(x, losses);
  return point_with_error(x, std::exp(loss.y), std::exp(loss.y) * (loss.high - loss.y), std::move(label));
}

Point exact_point(double x, double y, std::string label) { return {x, y, y, y, std::move(label)}; }

Point point_with_error(double x, double y, double error, std::string label) {
  return {x, y, y - error, y + error, std::move(label)};
}

double Outcome::figure(std::string_view name) const {
  const auto found = std::ranges::find_if(figures, [&](const auto& f) { return f.first == name; });
  return found == figures.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

nlohmann::ordered_json to_json(const Outcome& outcome) {
  Json figures = Json::object(), checks = Json::array();
  for (const auto& figure : outcome.figures) figures[figure.first] = figure.second;
  for (const Check& check : outcome.checks) checks.push_back({{"what", check.what}, {"met", check.met}});
  return {{"findings", outcome.findings},
          {"checks", checks},
          {"figures", figures},
          {"charts", to_array(outcome.charts)},
          {"heat_maps", to_array(outcome.heat_maps)},
          {"tables", to_array(outcome.tables)},
          {"texts", to_array(outcome.texts)}};
}

}  // namespace quire::lab
