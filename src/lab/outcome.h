// What an experiment found: curves with error bars, tables, texts, and sentences made from the numbers. Plain data,
// written as JSON into results.json and drawn by the report.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace quire::lab {

struct Point {
  double x = 0, y = 0;
  double low = 0, high = 0;  // the error bar; both y where there is none
  std::string label = {};    // drawn beside it
};

// The median of the samples; the bar goes from their 10th to their 90th percentile.
Point median_point(double x, std::vector<double> samples);
Point exact_point(double x, double y, std::string label = {});
// The mean of the samples and a standard error to both sides.
Point mean_point(double x, std::span<const double> samples);
// exp of the mean loss: a perplexity, and a standard error to both sides.
Point perplexity_point(double x, std::span<const double> losses, std::string label = {});
// y and a standard error to both sides.
Point point_with_error(double x, double y, double error, std::string label = {});

struct Axis {
  std::string name, unit;  // the unit may be empty
  bool logarithmic = false;
};

enum class Style {
  line,       // points joined
  points,     // each by itself
  bars,       // over categories
  reference,  // a line to compare with: what theory says
};

struct Series {
  std::string name;
  Style style = Style::line;
  std::vector<Point> points;
};

struct Chart {
  std::string title;
  Axis x, y;
  std::vector<std::string> categories;  // where x counts these, from 0
  std::vector<Series> series;
  std::string note;  // what a point and its error bar are
};

struct HeatMap {
  std::string title;
  Axis x, y;
  std::string value;                        // what the cells say, with its unit
  std::vector<std::string> columns, rows;   // their names
  std::vector<std::vector<double>> values;  // [rows][columns]
  bool logarithmic = false;                 // how values become colours
};

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

// Continuations of one beginning, side by side.
struct Texts {
  struct Version {
    std::string name, same, rest;  // as the first version says it, and from where it differs
  };
  std::string title, beginning;
  std::vector<Version> versions;
};

// Something that must hold, and whether it did.
struct Check {
  std::string what;
  bool met = false;
};

struct Outcome {
  std::vector<std::string> findings;  // sentences
  std::vector<Check> checks;
  std::vector<Chart> charts;
  std::vector<HeatMap> heat_maps;
  std::vector<Table> tables;
  std::vector<Texts> texts;
  std::vector<std::pair<std::string, double>> figures;  // single numbers, for scripts

  void find(std::string sentence) { findings.push_back(std::move(sentence)); }
  void check(std::string what, bool met) { checks.push_back({std::move(what), met}); }
  void figure(std::string name, double value) { figures.emplace_back(std::move(name), value); }
  double figure(std::string_view name) const;  // NaN where there is none
};

nlohmann::ordered_json to_json(const Outcome& outcome);

}  // namespace quire::lab
