/* install.h - where kiln itself is installed: what it ships is found relative to that. Any thread. */
#ifndef KILN_BASE_INSTALL_H
#define KILN_BASE_INSTALL_H

#include <stddef.h>

/* The folder of the kiln command, or of libkiln.so when a program uses that. NULL: the system does not say. */
const char *install_folder(void);
/* Writes "FOLDER/relative" to path and returns 1; 0 when there is no such file or folder, or it does not fit. */
int install_find(const char *relative, char *path, size_t capacity);

#endif
