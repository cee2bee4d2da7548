// mica: a camera's frame, or a part of it, as rows of an int8 picture: resized, converted, quantised in one pass.
//
// What is computed: host_tools/mica/format/SPEC.md, "Pictures". Nothing is allocated, no frame is kept.
#ifndef MICA_PICTURE_H
#define MICA_PICTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "mica_port.h"

// What the bytes of a frame are. 565 is a word of 16 bits, red uppermost: its low byte first (LE) or last (BE).
enum {
    MICA_PICTURE_GREY,
    MICA_PICTURE_RGB565LE,
    MICA_PICTURE_RGB565BE,
    MICA_PICTURE_RGB888,
    MICA_PICTURE_BGR888,
    MICA_PICTURE_YUYV,
    MICA_PICTURE_UYVY,
    MICA_PICTURE_FORMATS,
};

enum {
    MICA_PICTURE_COLOUR = 1,  // three channels are made; else one, grey
    MICA_PICTURE_BGR = 2,     // blue is the first of them
    MICA_PICTURE_PLANES = 4,  // each of them is a picture of its own, one behind the other; all rows at once
    MICA_PICTURE_AREA = 8,    // each pixel is the mean of those that it covers; else bilinear
};

#define MICA_PICTURE_MAX_SIDE (16384)  // of a frame and of what is made of it
#define MICA_PICTURE_MAX_COVER (128)   // columns, and rows, of the frame that one pixel is the mean of

// The order is that of an array('H') in MicroPython.
typedef struct {
    uint16_t width, height; // of the frame
    uint16_t x, y, w, h;    // the part of it that is looked at
    uint16_t out_w, out_h;  // what becomes of that part
    uint16_t format;
    uint16_t flags;
} mica_picture_t;

// Bytes of a frame of this format; 0 where the width, height or format is none.
size_t mica_picture_bytes(const mica_picture_t *p);

// Whether mica_picture_rows() can be called: every number in its range, the part inside of the frame, colour only of
// frames that have it.
bool mica_picture_check(const mica_picture_t *p);

// Makes rows [begin, end), end <= out_h, of a picture that was checked. With PLANES: begin 0, end out_h.
//   frame  uint8, mica_picture_bytes()
//   table  int8 [channels][256]: what each of 0 to 255 becomes, for each channel in the order of `out`
//   out    int8 [end - begin, out_w, channels]; with PLANES [channels, out_h, out_w]
void mica_picture_rows(const mica_picture_t *p, const uint8_t *frame, const int8_t *table, uint32_t begin, uint32_t end,
    int8_t *out);

#endif
