/* crc32c.h - the checksum of TFRecord files (Castagnoli polynomial), and the mask they store it under. */
#ifndef YK_BASE_CRC32C_H
#define YK_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t yk_crc32c(const void *bytes, size_t n);
uint32_t yk_crc32c_masked(const void *bytes, size_t n); /* rotated right by 15, plus 0xa282ead8 */

#endif
