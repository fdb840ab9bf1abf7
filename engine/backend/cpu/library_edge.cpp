/* library_edge.cpp - see library_edge.h. The only C++ of the engine's own: a catch has no other language. */
#include "backend/cpu/library_edge.h"

#include <new>

library_end library_call(void (*fn)(void *arg), void *arg)
{
    try {
        fn(arg);
        return LIBRARY_RETURNED;
    } catch (const std::bad_alloc &) {
        return LIBRARY_NO_MEMORY;
    } catch (...) {
        return LIBRARY_THREW;
    }
}
