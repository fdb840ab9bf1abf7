/* saved_file.h - what is gathered for a file: rows and texts, as families give them (kiln/saving.h). */
#ifndef KILN_SAVING_SAVED_FILE_H
#define KILN_SAVING_SAVED_FILE_H

#include "kiln/kit.h"
#include "kiln/saving.h"

enum { SAVED_NAME = 1100, SAVED_PART = 40 };

typedef struct {
    const kiln_call *call;
    const kiln_weights_api *w;
    kiln_saving saving;    /* to be given to a family's save() */
    uint32_t dtype;        /* of tensors from sets whose family says none; 0: as they are stored */
    char part[SAVED_PART]; /* what the name ends with; "" */
    kiln_weight_row *row;
    kiln_weight_text *text;
    size_t n, capacity, n_text, text_capacity;
} saved_file;

void saved_file_begin(saved_file *f, const kiln_call *c, uint32_t alone, uint32_t dtype);
/* Writes it as PREFIX_PART_00001_.safetensors below the output folder, with the texts of the run. */
kiln_status saved_file_write(saved_file *f, const char *prefix);
/* Due in any case; *f is as begun, without rows. */
void saved_file_free(saved_file *f);

#endif
