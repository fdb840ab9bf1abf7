/* tokenizer_api.h - the table behind "kiln.tokenizer/1". */
#ifndef KILN_TOKENIZER_API_H
#define KILN_TOKENIZER_API_H

#include "kiln/tokenizer.h"

extern const kiln_tokenizer_api tokenizer_api;

/* Keeps the host, for messages. [open] */
void tokenizer_api_host(const kiln_host *host);

/* As tokenizer_api.open, with the reason in why[KILN_TOKENIZER_WHY] in place of a message on a call. */
kiln_tokenizer *tokenizer_open(const kiln_tokenizer_source *, char *why);

#endif
