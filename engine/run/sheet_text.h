/* sheet_text.h - lettering for the contact sheet: Pango and Cairo in the fonts that are installed, opened when a sheet
 * is drawn; where they are not, built-in letters of ASCII, and a warning that says what to install.
 *
 * A text is wrapped at words into a width and a number of lines; what does not fit ends in an ellipsis. One thread.
 */
#ifndef KILN_RUN_SHEET_TEXT_H
#define KILN_RUN_SHEET_TEXT_H

#include "base/status.h"

typedef struct {
    size_t size;         /* of the font, in pixels */
    struct pango *pango; /* NULL: built-in letters */
    int warned, told;    /* of letters that no font has; of Pango */
} sheet_text;

typedef struct {
    size_t w, h;    /* what the text takes; at most the width asked for */
    uint8_t *cover; /* [h][w], 0..255 of ink: mem_free; NULL when only measured */
} text_image;

/* library: NULL, or what to open in place of Pango's own name. */
void sheet_text_open(sheet_text *t, const char *library);
void sheet_text_close(sheet_text *t);

/* Lines are centred. The one failure is KILN_ERR_NOMEM. */
kiln_status sheet_text_set(sheet_text *t, const char *text, size_t width, size_t lines, int draw, text_image *out);

#endif
