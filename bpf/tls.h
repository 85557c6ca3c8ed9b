/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where, in what a client sends over TLS, its handshake ends and its first request begins. Only
 * the headers of records are looked at. Pure functions on bytes, compiled into the kernel programs
 * and, for its tests, into an ordinary library.
 *
 *	TLS 1.2  handshake (22) …, change_cipher_spec (20), Finished (22, small)        | data (23)
 *	TLS 1.3  handshake (22) …, change_cipher_spec (20), certificates (23) …,
 *	         Finished (23, of 53 or 69 bytes)                                       | data (23)
 *
 * In TLS 1.3 (RFC 8446) everything behind the hello is encrypted and of type 23; Finished is told
 * by its length: 4 bytes of header, 32 or 48 of hash, 1 of type, 16 of the cipher's tag. Early data
 * is taken for a part of the handshake.
 */
#ifndef TARE_TLS_H
#define TARE_TLS_H

#define TLS_HEADER	     5
#define TLS_RECORD_MAX	     16640 /* 2^14 + 256, RFC 8446 5.2 */
#define TLS_CLIENT_HELLO_MIN 100   /* no ClientHello is smaller, every Finished of TLS 1.2 is */

struct tls {
	__u32 skip;    /* bytes of the record at hand that are still to come */
	__u8 ccs;      /* change_cipher_spec has been seen */
	__u8 finished; /* Finished has been seen */
	__u8 v13;      /* TLS 1.3 */
	__u8 pad;
};

enum tls_step {
	TLS_SKIP = 0,	 /* a record of the handshake, or an alert: go on behind it */
	TLS_REQUEST = 1, /* data begins with this record */
	TLS_LOST = 2,	 /* not what a client sends */
};

/* Takes the header of the next record. */
static inline __attribute__((always_inline)) enum tls_step tls_record(struct tls *t, const __u8 *h)
{
	__u32 len = (__u32)h[3] << 8 | h[4];
	if (h[0] < 20 || h[0] > 23 || h[1] != 3 || !len || len > TLS_RECORD_MAX)
		return TLS_LOST;
	if (t->finished && h[0] == 23 && len != 19) /* 19: an encrypted alert, as close_notify */
		return TLS_REQUEST;
	t->skip = len;
	if (h[0] == 20)
		t->ccs = 1;
	if (h[0] == 22 && t->ccs && len < TLS_CLIENT_HELLO_MIN)
		t->finished = 1;
	if (h[0] == 23) {
		t->v13 = 1;
		if (len == 53 || len == 69)
			t->finished = 1;
	}
	return TLS_SKIP;
}

#endif
