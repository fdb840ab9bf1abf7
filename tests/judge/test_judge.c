/* Proves the judge on scenes drawn here: it must accept the true caption and refuse it with one attribute changed.
 * Shapes have the proportions of scripts/shapes/scenes.py. Colours, places and sizes vary as they do there. */
#include "wish.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 128, SAMPLES = 4, SCENES = 2000, SOFT_SCENES = 500 };

static uint64_t state = 20261120;

/* xorshift64* (Vigna 2016), 0 <= result < limit. */
static int below(int limit)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (int)((state * UINT64_C(2685821657736338717) >> 33) % (uint64_t)limit);
}

static double between(double low, double high) { return low + (high - low) * below(1 << 20) / (1 << 20); }

struct drawn {
    int shape, colour;
    double x, y, radius;
};

/* Is (x, y), in units of the radius round the centre, inside the shape? */
static int inside(int shape, double x, double y)
{
    double r = sqrt(x * x + y * y);
    switch (shape) {
    case 0: return r <= 1;
    case 1: return fabs(x) <= 0.86 && fabs(y) <= 0.86;
    case 2: return y <= 0.8 && y >= -0.95 && fabs(x) <= (y + 0.95) / 1.75;
    case 3: { /* a ten-cornered star: between the spoke through a tip and the next notch the outline is straight */
        double step = acos(-1.0) / 5, v = y - 0.08, angle = fmod(atan2(x, -v) + 20 * step, 2 * step);
        double a = angle > step ? 2 * step - angle : angle, length = sqrt(x * x + v * v);
        double tip = 1.08, notch_x = 0.44 * cos(step), notch_y = 0.44 * sin(step), u = length * cos(a),
               w = length * sin(a);
        return (notch_x - tip) * w - notch_y * (u - tip) >= 0;
    }
    case 4: return (fabs(x) <= 0.34 && fabs(y) <= 1) || (fabs(y) <= 0.34 && fabs(x) <= 1);
    default: return r <= 1 && r >= 0.52;
    }
}

static const int palette[SIGHT_COLOURS][3] = {{222, 32, 38},  {248, 138, 22}, {252, 222, 40}, {36, 156, 60},
                                              {48, 204, 220}, {38, 76, 214},  {126, 46, 168}, {248, 134, 186}};
static const int grounds[SIGHT_BACKGROUNDS][3] = {{255, 255, 255}, {150, 150, 150}, {16, 16, 16}, {236, 218, 184}};

static void draw(uint8_t *rgb, const struct drawn *d)
{
    int jitter[3] = {below(11) - 5, below(11) - 5, below(11) - 5};
    for (int py = 0; py < SIDE; py++)
        for (int px = 0; px < SIDE; px++) {
            int hits = 0;
            if (fabs(px - d->x) > 1.2 * d->radius + 2 || fabs(py - d->y) > 1.2 * d->radius + 2) continue;
            for (int s = 0; s < SAMPLES * SAMPLES; s++) {
                double x = px + (s % SAMPLES + 0.5) / SAMPLES - d->x, y = py + (s / SAMPLES + 0.5) / SAMPLES - d->y;
                hits += inside(d->shape, x / d->radius, y / d->radius);
            }
            for (int c = 0; c < 3; c++) {
                uint8_t *at = &rgb[(py * SIDE + px) * 3 + c];
                double target = palette[d->colour][c] + jitter[c], share = hits / (double)(SAMPLES * SAMPLES);
                double value = *at + share * ((target > 255 ? 255 : target) - *at);
                *at = (uint8_t)(value + 0.5);
            }
        }
}

/* A random value that is not this one. */
static int other(int value, int count) { return (value + 1 + below(count - 1)) % count; }

/* A scene as a wish that tells all, and its picture. */
static void make_scene(struct wish *wish, uint8_t *rgb)
{
    static const double radii[3][2] = {{15, 19}, {24, 30}, {37, 46}};
    struct drawn d[2];
    *wish = (struct wish){.count = 1 + (below(10) < 6), .background = below(SIGHT_BACKGROUNDS)};
    for (int i = 0; i < SIDE * SIDE * 3; i++) rgb[i] = (uint8_t)grounds[wish->background][i % 3];
    for (int k = 0; k < wish->count; k++) {
        d[k] = (struct drawn){below(SIGHT_SHAPES), below(SIGHT_COLOURS), 0, 0, between(17, 24)};
        if (k == 1 && d[1].shape == d[0].shape && d[1].colour == d[0].colour)
            d[1].shape = other(d[0].shape, SIGHT_SHAPES);
        wish->shape[k] = d[k].shape;
        wish->colour[k] = d[k].colour;
        wish->size[k] = -1;
    }
    if (wish->count == 1) {
        int size = wish->size[0] = below(SIGHT_SIZES);
        d[0].radius = between(radii[size][0], radii[size][1]);
        d[0].x = SIDE / 2.0 + between(-10, 10);
        d[0].y = SIDE / 2.0 + between(-10, 10);
    } else {
        wish->relation = (enum relation)(LEFT + below(4));
        for (int k = 0; k < 2; k++) {
            int first = (wish->relation == LEFT || wish->relation == ABOVE) == (k == 0);
            double along = SIDE * (first ? 0.27 : 0.73) + between(-4, 4), across = SIDE / 2.0 + between(-8, 8);
            int sideways = wish->relation == LEFT || wish->relation == RIGHT;
            d[k].x = sideways ? along : across;
            d[k].y = sideways ? across : along;
        }
    }
    for (int k = 0; k < wish->count; k++) draw(rgb, &d[k]);
}

/* Changes one attribute so that the picture no longer grants the wish. */
static void spoil(struct wish *wish)
{
    int k = below(wish->count);
    switch (below(4)) {
    case 0: wish->shape[k] = other(wish->shape[k], SIGHT_SHAPES); break;
    case 1: wish->colour[k] = other(wish->colour[k], SIGHT_COLOURS); break;
    case 2:
        if (wish->count == 2)
            wish->relation = (enum relation)(LEFT + other((int)wish->relation - LEFT, 4));
        else
            wish->size[0] = other(wish->size[0], SIGHT_SIZES);
        break;
    default: wish->background = other(wish->background, SIGHT_BACKGROUNDS); break;
    }
}

static void test_prompts(void)
{
    static const struct {
        const char *prompt;
        int count; /* 0: must be refused */
        enum relation relation;
    } rows[] = {
        {"a red circle", 1, NONE},
        {"A picture of a small RED circle, on a white background.", 1, NONE},
        {"a red circle to the left of a blue square", 2, LEFT},
        {"an orange star right of a pink ring", 2, RIGHT},
        {"a red cross over a red star", 2, ABOVE},
        {"a red cross under a red star on a beige background", 2, BELOW},
        {"a red cross and a red star", 0, NONE},
        {"a circle", 0, NONE},
        {"", 0, NONE},
        {"red", 0, NONE},
        {"a red star above a red star above a red star", 0, NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct wish wish;
        const char *why;
        int status = wish_read(rows[i].prompt, &wish, &why);
        CHECK_EQ(status, rows[i].count ? 0 : -1);
        if (status) continue;
        CHECK_EQ(wish.count, rows[i].count);
        CHECK_EQ(wish.relation, rows[i].relation);
    }
}

/* A box blur of 3x3 pixels, as soft as a decoder may leave an edge. */
static void soften(uint8_t *rgb)
{
    static uint8_t sharp[SIDE * SIDE * 3];
    memcpy(sharp, rgb, sizeof sharp);
    for (int y = 1; y < SIDE - 1; y++)
        for (int x = 1; x < SIDE - 1; x++)
            for (int c = 0; c < 3; c++) {
                int sum = 4;
                for (int k = 0; k < 9; k++) sum += sharp[((y + k / 3 - 1) * SIDE + x + k % 3 - 1) * 3 + c];
                rgb[(y * SIDE + x) * 3 + c] = (uint8_t)(sum / 9);
            }
}

/* At least 99 in 100 true captions are accepted and 99 in 100 false ones refused: what the judge promises. */
static void check_scenes(int blurs, int scenes)
{
    static uint8_t rgb[SIDE * SIDE * 3];
    int accepted = 0, refused = 0;
    for (int i = 0; i < scenes; i++) {
        struct wish wish;
        struct sight seen;
        make_scene(&wish, rgb);
        for (int k = 0; k < blurs; k++) soften(rgb);
        CHECK_EQ(sight_look(&(struct picture){SIDE, SIDE, rgb}, &seen), 0);
        accepted += wish_granted(&wish, &seen);
        spoil(&wish);
        refused += !wish_granted(&wish, &seen);
    }
    printf("%d blurs: of %d scenes %d true captions accepted, %d false ones refused\n", blurs, scenes, accepted,
           refused);
    CHECK(accepted * 100 >= scenes * 99);
    CHECK(refused * 100 >= scenes * 99);
}

static void test_sharp_scenes(void) { check_scenes(0, SCENES); }

static void test_soft_scenes(void) { check_scenes(2, SOFT_SCENES); }

static void fill(uint8_t *rgb, int left, int right, const uint8_t colour[3])
{
    for (int y = 40; y < 100; y++)
        for (int x = left; x < right; x++) memcpy(&rgb[(y * SIDE + x) * 3], colour, 3);
}

/* What is no shape or no colour at all must not carry a name. */
static void test_nameless(void)
{
    static const uint8_t red[3] = {222, 32, 38}, blue[3] = {38, 76, 214};
    static uint8_t rgb[SIDE * SIDE * 3];
    const struct picture picture = {SIDE, SIDE, rgb};
    struct sight seen;
    struct wish wish;
    const char *why;
    CHECK_EQ(wish_read("a red circle", &wish, &why), 0);
    for (int i = 0; i < SIDE * SIDE * 3; i++) rgb[i] = (uint8_t)below(256);
    CHECK_EQ(sight_look(&picture, &seen), 0);
    CHECK(!wish_granted(&wish, &seen));
    memset(rgb, 255, sizeof rgb);
    CHECK_EQ(sight_look(&picture, &seen), 0);
    CHECK_EQ(seen.count, 0);
    CHECK(!wish_granted(&wish, &seen));
    fill(rgb, 60, 70, red); /* a bar, 10x60 */
    CHECK_EQ(sight_look(&picture, &seen), 0);
    CHECK_EQ(seen.count, 1);
    CHECK_EQ(seen.things[0].shape, -1);
    CHECK_EQ(seen.things[0].colour, 0);
    fill(rgb, 30, 60, red); /* a square, half red and half blue */
    fill(rgb, 60, 90, blue);
    CHECK_EQ(sight_look(&picture, &seen), 0);
    CHECK_EQ(seen.count, 1);
    CHECK_EQ(seen.things[0].shape, 1);
    CHECK_EQ(seen.things[0].colour, -1);
    CHECK_EQ(sight_look(&(struct picture){8, 8, rgb}, &seen), -1);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_prompts), CASE(test_sharp_scenes), CASE(test_soft_scenes),
                                      CASE(test_nameless)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
