/* test_shapes_upscaler.c - shapes-x2, which ships, on pictures that it was not trained on (tests/golden/shapes_large):
 * reduced to half their size and enlarged again they are nearer to what they were than by bicubic interpolation, by
 * three decibels at least.
 */
#include "upscaler_kit.h"

#include "plugin/spill.h"
#include "upscale_nodes.h"

#include <math.h>
#include <png.h>

enum { LARGE = 256, SMALL = LARGE / 2, COLOURS = 3, PICTURES = 12 };

static unsigned char large[LARGE][LARGE][COLOURS];
static float small[SMALL][SMALL][COLOURS], bicubic[LARGE][LARGE][COLOURS];

static int read_picture(int number)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/shapes_large/%02d.png", test_root(), number);
    png_image image = {.version = PNG_IMAGE_VERSION};
    int ok = png_image_begin_read_from_file(&image, path) != 0;
    image.format = PNG_FORMAT_RGB;
    ok = ok && image.width == LARGE && image.height == LARGE && png_image_finish_read(&image, NULL, large, 0, NULL);
    png_image_free(&image);
    return CHECK_MSG(ok, "%s", path);
}

/* The mean of each 2x2 pixels, as a file has it. */
static void reduce(void)
{
    for (int y = 0; y < SMALL; y++)
        for (int x = 0; x < SMALL; x++)
            for (int k = 0; k < COLOURS; k++) {
                int sum = large[2 * y][2 * x][k] + large[2 * y][2 * x + 1][k] + large[2 * y + 1][2 * x][k] +
                          large[2 * y + 1][2 * x + 1][k];
                small[y][x][k] = (float)((sum + 2) / 4) / 255;
            }
}

/* Keys 1981, a = -1/2. */
static double keys_kernel(double x)
{
    x = fabs(x);
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static int inside(int i) { return i < 0 ? 0 : i < SMALL ? i : SMALL - 1; }

static void enlarge_bicubic(void)
{
    for (int y = 0; y < LARGE; y++)
        for (int x = 0; x < LARGE; x++) {
            double v = (y - 0.5) / 2, u = (x - 0.5) / 2, sum[COLOURS] = {0};
            int top = (int)floor(v) - 1, left = (int)floor(u) - 1;
            for (int j = top; j < top + 4; j++)
                for (int i = left; i < left + 4; i++)
                    for (int k = 0; k < COLOURS; k++)
                        sum[k] += keys_kernel(v - j) * keys_kernel(u - i) * (double)small[inside(j)][inside(i)][k];
            for (int k = 0; k < COLOURS; k++) bicubic[y][x][k] = (float)sum[k];
        }
}

/* Decibels of numbers that a file would have. */
static double psnr(const float *got)
{
    const unsigned char *wanted = &large[0][0][0];
    double sum = 0;
    for (int i = 0; i < LARGE * LARGE * COLOURS; i++) {
        double v = got[i] < 0 ? 0 : got[i] > 1 ? 1 : (double)got[i], d = (rint(v * 255) - wanted[i]) / 255;
        sum += d * d;
    }
    return -10 * log10(sum / (LARGE * LARGE * COLOURS));
}

static double lead_of(kiln_value *model, int number)
{
    kiln_value *image = rig_host()->tensor_new(NULL, KILN_F32, KILN_CPU, 4, KILN_DIMS(1, SMALL, SMALL, COLOURS)),
               *in[2] = {model, image}, *made = NULL;
    kiln_tensor t = {.size = sizeof t};
    double lead = 0;
    if (!read_picture(number)) return 0;
    reduce();
    enlarge_bicubic();
    rig_host()->view(NULL, image, &t);
    memcpy(t.data, small, sizeof small);
    kiln_call c = {.size = sizeof c, .device = KILN_CPU, .host = rig_host(), .ctx = rig_ctx(), .in = in, .out = &made};
    if (CHECK_MSG(node_image_upscale_with_model.run(&c) == KILN_OK, "%s", rig_message())) {
        rig_host()->view(NULL, made, &t);
        double ours = psnr(t.data), theirs = psnr(&bicubic[0][0][0]);
        printf("# %02d: bicubic %.2f dB, shapes-x2 %.2f dB\n", number, theirs, ours);
        lead = ours - theirs;
    }
    rig_host()->unref(made);
    rig_host()->unref(image);
    return lead;
}

static void test_it_is_three_decibels_ahead_of_bicubic(void)
{
    kiln_weights *set = open_weights("workflows/models/upscale_models/shapes-x2.safetensors");
    kiln_value *model = set ? open_upscaler(set) : NULL;
    double sum = 0, least = 100;
    if (!CHECK_MSG(model != NULL, "%s", rig_message())) return;
    for (int i = 0; i < PICTURES; i++) {
        double lead = lead_of(model, i);
        sum += lead, least = fmin(least, lead);
    }
    CHECK_MSG(sum / PICTURES >= 3, "it is %.2f dB ahead", sum / PICTURES);
    CHECK_MSG(least >= 1, "it is %.2f dB ahead where it is least", least);
    rig_host()->unref(model);
    weights_unref(set);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_it_is_three_decibels_ahead_of_bicubic)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
