/* wrapped.cpp - for test_headers.sh: what kiln.hpp has beside what plugins/examples/posterise.cpp uses: values of every
 * kind, captures, exceptions. */
#include "kiln/kiln.hpp"

#include <stdexcept>

namespace
{

struct text_params {
    const char *text = "a b a";
    int64_t times = 2;
    uint64_t seed = 7;
    int32_t loud = 0;
    double share = 0.25;
};

const std::string mark = "!";

/* Every kind of value into a map, and out of it again. */
const auto values = kiln::node<text_params>("WrappedValues", "Values", "test", "Values of every kind.")
                        .out("MAP", "WRAPPED", "A map.")
                        .param("text", &text_params::text, "A text.", KILN_PARAM_MULTILINE)
                        .param("times", &text_params::times, {1, 9, 1}, "How often.")
                        .seed("seed", &text_params::seed, "A seed.")
                        .param("loud", &text_params::loud, "Whether.")
                        .param("share", &text_params::share, {0, 1, 0.1, KILN_PARAM_BELOW_MAX}, "A number.")
                        .run([suffix = mark](kiln::call &c, const text_params &p) {
                            auto map = c.map();
                            auto list = c.list();
                            for (int64_t i = 0; i < p.times; i++)
                                list.push(c.text(std::string(p.text) + (p.loud ? suffix : "")));
                            map.set("texts", list);
                            map.set("seed", c.integer(static_cast<int64_t>(p.seed)));
                            map.set("share", c.number(p.share));
                            map.set("loud", c.boolean(p.loud != 0));
                            kiln::value copy = map, moved = std::move(map); /* references of their own */
                            copy = moved;
                            c.out(0, std::move(copy));
                        });

const auto report =
    kiln::node<>("WrappedReport", "Report", "test", "What is in the map.")
        .in("map", "WRAPPED", "A map.")
        .in("note", "STRING", "A text.", KILN_PORT_OPTIONAL)
        .out("STRING", "STRING", "All of it.")
        .run([](kiln::call &c, kiln::none) {
            auto map = c.in(0);
            std::string all;
            for (size_t i = 0; i < map.count(); i++) all += std::string(map.entry(i).first) + " ";
            all += std::to_string(map["texts"].count()) + " " + std::string(map["texts"][0].text());
            all += " " + std::to_string(map["seed"].integer()) + " " + std::to_string(map["share"].number());
            all += map["loud"].boolean() ? " loud" : " quiet";
            if (map["nothing"]) all += " and something";
            if (c.in(1)) all += " " + std::string(c.in(1).text());
            c.out(0, c.text(all));
        });

struct throw_params {
    int32_t what = 0;
};
const auto thrower = kiln::node<throw_params>("WrappedThrow", "Throw", "test", "Ends in each way.")
                         .out("STRING", "STRING", "Nothing.")
                         .param("what", &throw_params::what,
                                {{"error", "kiln::error"},
                                 {"memory", "bad_alloc"},
                                 {"standard", "runtime_error"},
                                 {"other", "an int"},
                                 {"kind", "a value of another kind"},
                                 {"ability", "none of that name"}},
                                "How.")
                         .run([](kiln::call &c, const throw_params &p) {
                             auto held = c.list(); /* is let go of, however it ends */
                             held.push(c.text("x"));
                             switch (p.what) {
                             case 0: throw kiln::error(KILN_ERR_INVALID, "the first way; take 100% of another");
                             case 1: throw std::bad_alloc();
                             case 2: throw std::runtime_error("a standard one");
                             case 3: throw 7;
                             case 4: c.out(0, c.number(kiln::lent(c, held.get())[0].number())); return;
                             default: c.ability<kiln_value_api>("org.example.none/1");
                             }
                         });

} // namespace

KILN_CPP_PLUGIN("org.example.wrapped", "1.0.0", "MIT", values, report, thrower)
