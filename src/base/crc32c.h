/* crc32c.h - the checksum of TFRecord files: CRC-32C (Castagnoli), masked. */
#ifndef YK_BASE_CRC32C_H
#define YK_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Masked means rotated right by 15, plus 0xa282ead8. */
uint32_t yk_crc32c_masked(const void *bytes, size_t n);

#endif
