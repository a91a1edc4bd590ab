#include "lookup_tasks.h"

#include <array>

namespace quire::bench {
namespace {

constexpr std::array<RewriteTask, 10> kRewrites{{
    {"Martin", "Robert",
     "Martin was eleven when he found the key. It lay under the floor of the attic, wrapped in a page from a "
     "newspaper that was older than his father. The key was as long as his hand and very heavy. He tried it on "
     "every door of the house, on the shed, and on the gate of the orchard, but it fitted none of them. His sister "
     "said that he should throw it away. His uncle, who knew about such things, turned it over twice and said that "
     "it was the key of a mill. There had been three mills along the river, and two of them had burned down. So on "
     "the first dry day of March they walked to the third one, with a lamp and a bottle of oil. The door was green "
     "with moss. The key went in, and it would not turn, and then it did. Inside, everything stood as it had been "
     "left, even the flour in the bins."},
    {"Paris", "Vienna",
     "When my aunt was twenty, she travelled to Paris with one suitcase and the address of a dressmaker. She did "
     "not speak the language, and the first week she ate only bread and apples, because she knew the words for "
     "them. The dressmaker gave her a table by the window and a basket of buttons to sew on. By spring she could "
     "cut a sleeve without a pattern. She wrote home every Sunday, on thin blue paper, about the rain on the "
     "roofs, the cats in the yard, and a baker who whistled so loudly that the whole street knew when the bread "
     "was ready. My grandmother kept the letters in a biscuit tin. I found them there last year, tied with a "
     "ribbon, forty of them, and I read them in one night. In the last one she says that she will come home for a "
     "visit and bring somebody with her. It was the baker."},
    {"Tuesday", "Sunday",
     "The ferry to the island leaves on Tuesday at half past seven. Be at the pier twenty minutes earlier, because "
     "the captain does not wait. He is a short man with a red cap, and he remembers everybody who has ever been "
     "late. The crossing takes two hours when the sea is calm. There are seats for thirty people on the upper deck "
     "and a small room below with a stove, where the cook sells soup. Dogs may come along if they stay outside. On "
     "the island a cart will carry your bags to the guest house, which stands on a hill above the beach. The rooms "
     "have no numbers, only the names of birds. Supper is at six, and afterwards the landlady tells stories about "
     "the winter when the harbour froze and the post was brought across the ice on a sledge. Take a warm coat with "
     "you, even in August, and a book for the way back."},
    {"Monday", "Friday",
     "The bakery on Mill Street opens at six in the morning. On Monday the owner, a woman called Ruth Keller, arrives "
     "two hours earlier than usual, because the flour is delivered before dawn. She carries the sacks into the store "
     "room herself, counts them twice and writes the number into a brown notebook. Then she lights the large oven, "
     "which takes almost an hour to become hot. While she waits, she mixes the dough for rye bread and sets it aside "
     "under a wet cloth. Her nephew comes at five to shape the rolls. He is not fond of early hours, but he likes the "
     "smell of the first bread and the quiet of the street. By the time the door is unlocked, four kinds of bread lie "
     "in the window, and three customers stand outside in the cold."},
    {"bridge", "tunnel",
     "The council has decided to build a new bridge between the two halves of the town. For thirty years people have "
     "crossed the river by ferry, which stops at ten in the evening and does not run in winter when there is ice. "
     "The plan was drawn by an engineer from the capital, who visited the place four times and spoke with the "
     "fishermen. The work will begin in April and should last about eighteen months. During this time the road along "
     "the eastern bank will be closed to lorries. Shops near the market fear that fewer visitors will come, and they "
     "have asked for lower rents. The mayor promised to answer them before the end of the month. A small exhibition "
     "in the town hall shows drawings, a model made of wood, and photographs of the ferry from the last century."},
    {"copper", "silver",
     "In the back room of the museum stands a case with objects that were found in a field near the lake. The largest "
     "is a bowl of hammered copper, as wide as a hand is long, with a pattern of leaves around its rim. Beside it lie "
     "two knives, a comb made from bone, and eleven beads of blue glass. Nobody knows who buried them. The farmer who "
     "found the bowl hit it with his plough and thought at first that it was an old pan. His daughter washed it and "
     "saw "
     "the leaves. She wrote a letter to the museum, and a week later three people came with brushes and spades. They "
     "dug for nine days in the rain. What they found is small, but it changed what is known about trade in the valley, "
     "because the glass came from a town more than a thousand miles away."},
    {"Anna", "Clara",
     "Anna had never liked the lighthouse. It stood at the end of a long wall of stones, and when the wind blew from "
     "the west the waves broke over the wall and wet her shoes. Her grandfather had been the keeper for forty years. "
     "He knew every ship that passed and kept a list of their names above the stove. In the summer of the great storm "
     "he asked her to stay with him for a month, to read to him in the evenings, since his eyes had become weak. She "
     "agreed because there was nothing else to do. On the third night the lamp went out. The old man could not climb "
     "the stairs quickly enough, so she took the matches and ran. There were two hundred and twelve steps. When the "
     "light came back, she saw a small boat turn away from the rocks, slowly, like somebody who has changed his mind."},
    {"north", "south",
     "The path begins behind the church and leads north through a forest of old beeches. After half a mile it crosses "
     "a stream on three flat stones, which can be slippery after rain. Keep to the left where the path divides, and "
     "follow the yellow marks on the trees. The climb is gentle at first and becomes steep near the top. From the rock "
     "at the summit you can see the whole valley, the lake with its two islands, and on clear days the mountains "
     "beyond "
     "the border. There is a hut with a bench and a spring, but no food is sold there, so bring your own. The way down "
     "on the other side is shorter and passes an abandoned mine. Do not go in, because the beams are rotten. In the "
     "village below, a bus leaves every hour until seven in the evening, and the driver stops wherever you ask him "
     "to."},
    {"horse", "donkey",
     "A farmer had a horse that was too old to work. He did not have the heart to sell it, so he let it stand in the "
     "meadow behind the barn, where the grass was high. Every morning the children of the village passed by on their "
     "way "
     "to school and gave it apples. One winter the snow fell for three days, and the road disappeared. The children "
     "had "
     "set out from school in the afternoon, and when it grew dark they had not come home. The farmer took a lantern "
     "and "
     "called, but the wind was louder than he was. Then the gate of the meadow broke, and the old animal walked into "
     "the "
     "snow as if it knew where to go. It found the children under a bridge, and they held on to its neck, and it went "
     "home by the way it had always watched them come. From that day on it had more apples than it could eat."},
    {"engine", "motor",
     "Check the oil before you start the engine, and never while it is running. The stick is on the left side, behind "
     "the yellow cap. Pull it out, wipe it with a clean cloth, push it in again and pull it out once more. The oil "
     "should "
     "stand between the two lines. If it is below the lower one, add half a litre and check again after five minutes. "
     "Look at the colour as well. Oil that is as black as tar should be changed, even if there is enough of it. The "
     "filter is changed every second time. Unscrew it by hand, let the rest run into a bowl, and rub a little fresh "
     "oil "
     "on the rubber ring of the new one. Do not use a tool to fasten it, because the ring breaks easily. Write the "
     "date "
     "and the number of hours on the label inside the door, so that the next person knows when it was done."},
}};

constexpr std::array<std::string_view, 10> kProse{
    "Write a short story about a lighthouse keeper who finds a letter in a bottle.",
    "Explain to a child why the sky is blue.",
    "Describe a walk through a forest in late autumn.",
    "What are the advantages and disadvantages of living in a small town?",
    "Write a letter to a friend whom you have not seen for ten years.",
    "Explain how bread is made, from the field to the table.",
    "Describe the first day of a young teacher at a new school.",
    "Why did people begin to build cities?",
    "Write a short speech for the opening of a public library.",
    "Tell the story of a dog that travels across a country to find its way home."};

}  // namespace

std::span<const RewriteTask> rewrite_tasks() { return kRewrites; }
std::span<const std::string_view> prose_tasks() { return kProse; }

}  // namespace quire::bench
