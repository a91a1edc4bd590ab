#include "lab/made_text.h"

#include <array>
#include <random>
#include <span>
#include <string_view>

#include "core/check.h"

namespace quire::lab {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 20> kPeople{
    "Ada Brandt",     "the miller",     "old Tobias",    "the schoolteacher", "Captain Orme",
    "the widow Hale", "young Peter",    "the baker",     "Dr. Lindqvist",     "the ferryman",
    "Mrs. Okafor",    "the clockmaker", "Judge Varga",   "the postman",       "Ines Moreau",
    "the gardener",   "Brother Anselm", "the innkeeper", "Tom Weaver",        "the surveyor"};
constexpr std::array<std::string_view, 20> kPlaces{
    "the harbour",       "the upper mill", "the market square", "the old bridge",  "the chapel",
    "the reading room",  "the north road", "the quarry",        "the lighthouse",  "the grain store",
    "the town hall",     "the orchard",    "the railway yard",  "the schoolhouse", "the salt meadows",
    "the weavers' hall", "the river bank", "the observatory",   "the fish market", "the stone barn"};
constexpr std::array<std::string_view, 24> kThings{
    "a brass key",      "the parish ledger",  "a crate of lamp oil", "two letters",       "a broken barometer",
    "the spare anchor", "a map of the coast", "a bag of seed corn",  "the church bell",   "a silver watch",
    "the court papers", "a lantern",          "the mill wheel",      "a bundle of cloth", "an iron stove",
    "a violin",         "the almanac",        "a jar of honey",      "a field telescope", "the winter stores",
    "a painted sign",   "the harbour chart",  "a wooden ladder",     "the tax receipts"};
constexpr std::array<std::string_view, 20> kDid{
    "repaired",        "carried away", "counted",   "promised to return", "described",  "hid",         "inherited",
    "measured",        "bought back",  "lost",      "examined",           "lent out",   "found again", "painted",
    "refused to sell", "weighed",      "locked up", "argued about",       "remembered", "replaced"};
constexpr std::array<std::string_view, 20> kWhen{
    "on the first of March",   "before the frost",   "in the wet summer of that year", "at low tide",
    "late in the evening",     "on market day",      "after the long drought",         "during the harvest",
    "on the day of the fair",  "two weeks later",    "in the last days of autumn",     "shortly after dawn",
    "when the snow melted",    "on a Sunday",        "in the third year of the war",   "as the clocks struck nine",
    "before anyone was awake", "at the end of term", "while the rain lasted",          "on the longest night"};
constexpr std::array<std::string_view, 20> kWhy{"because nobody else would",        "to settle an old debt",
                                                "although the law forbade it",      "for the sake of the children",
                                                "as the contract required",         "without asking for payment",
                                                "in spite of the doctor's advice",  "so that the work could go on",
                                                "to the surprise of the council",   "since the price had fallen",
                                                "as had been the custom for years", "for reasons never explained",
                                                "to please a distant cousin",       "after much persuasion",
                                                "though the roads were closed",     "to prove a point",
                                                "as the newspaper later reported",  "with the help of a neighbour",
                                                "under the terms of the will",      "and was praised for it"};
constexpr std::array<std::string_view, 16> kHow{"quiet", "stubborn",  "generous",  "suspicious", "cheerful", "precise",
                                                "tired", "ambitious", "forgetful", "honest",     "restless", "careful",
                                                "proud", "patient",   "nervous",   "practical"};
constexpr std::array<std::string_view, 12> kSubjects{
    "the weather",  "the price of wool", "the new railway", "an unpaid bill", "the flood of 1834", "the school fund",
    "the election", "a missing boat",    "the harvest",     "the bell tower", "a stolen horse",    "the water supply"};

// {p} person, {P} the same at the start of a sentence, {l} place, {t} thing, {d} deed, {w} when, {y} why, {h} how,
// {s} subject, {n} number.
constexpr std::array<std::string_view, 22> kSentences{
    "{P} {d} {t} at {l} {w}.",
    "{W}, {p} went to {l} and {d} {t} {y}.",
    "It was said of {p}, who was {h} by nature, that nobody had ever {d} {t} more quickly.",
    "\"I have not seen {t} since we spoke of {s},\" said {p}, \"and I do not expect to.\"",
    "There were {n} people at {l} that day, and most of them had come because of {s}.",
    "The council spent {n} crowns on {l}, {y}.",
    "{P} and {p} could not agree on {s}.",
    "From {l} one could see {l2}, which lay about {n} paces further on.",
    "When {p} asked about {t}, the answer was {h} but short.",
    "Nothing more was heard of {t} until {p} {d} it {w}.",
    "In those years {l} belonged to {p}, a {h} owner who kept {t} under the stairs.",
    "\"What will become of {l}?\" asked {p}. \"That depends on {s},\" replied {p2}.",
    "The records mention {n} barrels, {n2} sheep and {t}, all of them kept at {l}.",
    "{P} wrote a letter about {s} and sent it to {l} {w}.",
    "Whoever wants to understand {s} must first look at {l}, where everything was decided.",
    "{W} the road between {l} and {l2} was closed, and {p} had to wait for {n} days.",
    "People still tell how {p} {d} {t} {y}.",
    "Of the {n} houses near {l}, only {n2} were standing {w}.",
    "{P} was {h}, and so was {p2}; this made the matter of {s} harder than it needed to be.",
    "If {t} had been at {l}, as {p} believed, the question of {s} would have been settled {w}.",
    "The reason was simple: {p} had {d} {t}, and {p2} knew it.",
    "Later that year {t} was moved from {l} to {l2} {y}."};

class Chronicle {
 public:
  explicit Chronicle(std::uint64_t seed) : random_(seed) {}

  std::string sentence() {
    std::string out;
    const std::string_view form = any(kSentences);
    for (std::size_t i = 0; i < form.size(); ++i) {
      if (form[i] != '{') {
        out += form[i];
        continue;
      }
      const std::string word = slot(form[i + 1]);
      i = form.find('}', i);
      out += word;
    }
    return out;
  }

  std::size_t below(std::size_t n) { return random_() % n; }

  std::string heading(int chapter) {
    return "Chapter " + std::to_string(chapter) + ". Of " + std::string(any(kSubjects)) + " and " +
           std::string(any(kPlaces)) + "\n\n";
  }

 private:
  std::string_view any(Words words) { return words[below(words.size())]; }

  static std::string capital(std::string_view words) {
    std::string text(words);
    if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
  }

  std::string slot(char kind) {
    switch (kind) {
      case 'p':
        return std::string(any(kPeople));
      case 'P':
        return capital(any(kPeople));
      case 'l':
        return std::string(any(kPlaces));
      case 't':
        return std::string(any(kThings));
      case 'd':
        return std::string(any(kDid));
      case 'w':
        return std::string(any(kWhen));
      case 'W':
        return capital(any(kWhen));
      case 'y':
        return std::string(any(kWhy));
      case 'h':
        return std::string(any(kHow));
      case 's':
        return std::string(any(kSubjects));
      case 'n':
        return std::to_string(2 + below(97));
    }
    QUIRE_ASSERT(false, "a sentence with a slot that nothing fills");
    return {};
  }

  std::mt19937_64 random_;  // its numbers are the same with every standard library
};

}  // namespace

std::string made_text(std::size_t characters, std::uint64_t seed) {
  Chronicle chronicle(seed);
  std::string text;
  for (int chapter = 1; text.size() < characters; ++chapter) {
    text += chronicle.heading(chapter);
    for (std::size_t paragraphs = 3 + chronicle.below(4); paragraphs > 0; --paragraphs) {
      for (std::size_t sentences = 4 + chronicle.below(6); sentences > 0; --sentences) {
        text += chronicle.sentence();
        text += sentences > 1 ? " " : "\n\n";
      }
    }
  }
  return text;
}

}  // namespace quire::lab
