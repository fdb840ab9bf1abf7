/* What the judge sees in a picture: flat things on a flat background, found by pixels alone.
 *
 * A thing is a connected group of pixels that differ from the background. Its shape comes from its geometry (solidity,
 * extent, hole, harmonics of its outline), its colour from the nearest of eight names, its place from its centroid.
 * There is no network here and nothing is learnt. */
#ifndef JUDGE_SIGHT_H
#define JUDGE_SIGHT_H

#include <stddef.h>
#include <stdint.h>

enum { SIGHT_MAX_THINGS = 8, SIGHT_SHAPES = 6, SIGHT_COLOURS = 8, SIGHT_BACKGROUNDS = 4, SIGHT_SIZES = 3 };

extern const char *const sight_shape_names[SIGHT_SHAPES];
extern const char *const sight_colour_names[SIGHT_COLOURS];
extern const char *const sight_background_names[SIGHT_BACKGROUNDS];
extern const char *const sight_size_names[SIGHT_SIZES];

/* An RGB picture, 3 bytes a pixel, rows top to bottom without gaps. The caller owns rgb. */
struct picture {
    int width, height;
    const uint8_t *rgb;
};

/* Indices into the name tables, -1 where nothing fits well enough. x and y are the centroid in pixels;
 * radius is half the side of the square the drawn shape would fill; area is in pixels. */
struct thing {
    int shape, colour, size;
    double x, y, radius, area;
    double shape_error; /* distance to the nearest shape's features; 0 is perfect */
    double features[6];
    double colour_error; /* mean difference of its inside from the nearest named colour, of 255; -1 without an inside */
};

struct sight {
    int background;
    int count; /* things found; those past SIGHT_MAX_THINGS are counted and not described */
    struct thing things[SIGHT_MAX_THINGS];
};

/* Looks at the picture. Returns 0, or -1 when memory runs out or the picture is smaller than 16x16. */
int sight_look(const struct picture *picture, struct sight *out);

#endif
