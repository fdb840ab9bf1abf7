/* What a prompt asks for, in the words shapes-sd1 knows, and whether a picture grants it. */
#ifndef JUDGE_WISH_H
#define JUDGE_WISH_H

#include "sight.h"

enum relation { NONE, LEFT, RIGHT, ABOVE, BELOW };

/* One or two things as indices into the name tables of sight.h; -1 where the prompt is silent (size, background).
 * relation is where thing 0 lies seen from thing 1. */
struct wish {
    int count, shape[2], colour[2], size[2], background;
    enum relation relation;
};

/* Reads a prompt; adjectives belong to the shape that follows them. Returns 0, or -1 with *why (static text) set. */
int wish_read(const char *prompt, struct wish *wish, const char **why);

/* 1 when the picture shows exactly the things asked for, with every named attribute, else 0. */
int wish_granted(const struct wish *wish, const struct sight *seen);

#endif
