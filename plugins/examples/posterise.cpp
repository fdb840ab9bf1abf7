/* posterise.cpp - a picture in few steps of brightness, in C++17. Shows: kiln/kiln.hpp: a node from rows and a lambda,
 * an exception as the node's message, threads.
 */
#include "kiln/kiln.hpp"

#include <cmath>

namespace
{

struct posterise_params {
    int64_t steps = 4;
    int32_t rounding = 0;
};

const auto posterise =
    kiln::node<posterise_params>("ExamplePosterise", "Posterise", "examples", "Few steps of brightness.")
        .in("image", "IMAGE", "Picture to simplify.")
        .out("IMAGE", "IMAGE", "The picture in steps.")
        .param("steps", &posterise_params::steps, {2, 256, 1}, "How many there are.")
        .param("rounding", &posterise_params::rounding, {{"nearest", "the nearest step"}, {"down", "the one below"}},
               "Which of two steps is taken.")
        .run([](kiln::call &c, const posterise_params &p) {
            auto from = c.tensor<const float>(0);
            if (from.dim(3) != 3)
                throw kiln::error(KILN_ERR_INVALID, "image has " + std::to_string(from.dim(3)) +
                                                        " channels; take its transparency away with "
                                                        "SplitImageWithAlpha");
            auto to = c.new_tensor<float>(0, from.shape());
            if (c.estimating()) return;
            const size_t rows = static_cast<size_t>(from.dim(0) * from.dim(1)), row = from.size() / rows;
            const double last = static_cast<double>(p.steps - 1);
            c.progress(0, rows, "posterising");
            c.parallel_for(rows, [&](size_t y) {
                for (size_t i = y * row; i < (y + 1) * row; i++) {
                    double v = static_cast<double>(from[i]) * last;
                    to[i] = static_cast<float>((p.rounding ? std::floor(v) : std::round(v)) / last);
                }
            });
        });

} // namespace

KILN_CPP_PLUGIN("org.example.posterise", "1.0.0", "MIT", posterise)
