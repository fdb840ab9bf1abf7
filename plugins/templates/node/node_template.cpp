/* my_plugin.c - a node that multiplies a picture by a factor: rows that say what it takes and gives, and a lambda. */
#include "kiln/kiln.hpp"

namespace
{

struct my_plugin_params {
    double gain = 1; /* the default */
};

const auto node =
    kiln::node<my_plugin_params>("MyPlugin", "My Plugin", "image",
                                 "Multiplies every sample of a picture by a factor; what goes past white stays white.")
        .in("image", "IMAGE", "Picture to scale.")
        .out("IMAGE", "IMAGE", "The scaled picture.")
        .param("gain", &my_plugin_params::gain, {0, 16, 0.01}, "Factor for every sample.")
        .revision(1) /* raise it when the same inputs give another picture */
        .run([](kiln::call &c, const my_plugin_params &p) {
            auto from = c.tensor<const float>(0);
            auto to = c.new_tensor<float>(0, from.shape());
            if (c.estimating()) return; /* only shapes are asked for: tensors have no data */
            for (size_t i = 0; i < from.size(); i++) {
                if (i % 65536 == 0) c.progress(i, from.size(), "my-plugin");
                double v = static_cast<double>(from[i]) * p.gain;
                to[i] = static_cast<float>(v < 1 ? v : 1);
            }
        });

} // namespace

KILN_CPP_PLUGIN("org.example.my-plugin", "0.1.0", "MIT", node)
