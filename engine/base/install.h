/* install.h - finds the files that kiln ships, relative to where it is installed. Any thread. */
#ifndef KILN_BASE_INSTALL_H
#define KILN_BASE_INSTALL_H

#include <stddef.h>

/* The folder of the kiln command, or of libkiln.so when a program uses that. NULL: unknown. */
const char *install_folder(void);
/* Writes "FOLDER/relative" to path and returns 1; 0: it does not exist, or does not fit in `capacity`. */
int install_find(const char *relative, char *path, size_t capacity);

#endif
