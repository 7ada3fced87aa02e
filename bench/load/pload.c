// pload: a one-threaded load client for proxies (epoll + OpenSSL).
//
//   cc -O2 -o pload pload.c -lssl -lcrypto
//
// It drives one kind of load against one target, directly or through a proxy, and prints one JSON line. Every
// response is parsed (status, Content-Length, chunked), so a proxy that truncates or answers early is an error, not a
// fast proxy. It is written to be much cheaper than any proxy it measures; `client_cpu` in the output says how busy it
// was, and the same load without a proxy (`-v direct`) is its ceiling.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum via { VIA_DIRECT, VIA_HTTP, VIA_CONNECT, VIA_SOCKS5 };
enum mode {
  MODE_KEEP,  // requests one after another on kept connections
  MODE_NEW,   // a connection for each request
  MODE_CONN,  // open, finish the proxy (and TLS) handshake, close: no request
  MODE_BULK,  // one large response a connection, then stop
  MODE_HOLD,  // open tunnels and leave them idle
};
enum state {
  ST_CONNECTING,
  ST_PROXY_HTTP,   // CONNECT sent, waiting for 200
  ST_PROXY_GREET,  // SOCKS5 method negotiation
  ST_PROXY_SOCKS,  // SOCKS5 request sent
  ST_TLS,
  ST_SEND,
  ST_HEAD,
  ST_BODY,
  ST_PARKED,  // ready, waiting for the next request of a fixed-rate schedule
  ST_HELD,
  ST_DEAD,
};

#define HEAD_MAX 16384
typedef struct conn {
  int fd;
  SSL *ssl;
  enum state state;
  int events;       // what epoll waits for
  const char *out;  // bytes still to send
  int out_len, out_off;
  char in[HEAD_MAX];
  int in_len;
  long long body_left;
  int chunked, chunk_state, chunk_line_len;
  char chunk_line[32];
  int close_after, until_close;
  uint64_t t0;  // start of the request, ns
  int requests;
  int status;
  int established;  // was ready once: counts towards the begin of the warm-up
  int owes;         // opened for a request that was due already
  struct conn *parked_before, *parked_after;
} conn;

// ---- options -------------------------------------------------------------------------------------------------------
static enum via via = VIA_DIRECT;
static enum mode mode = MODE_KEEP;
static int use_tls, resume_tls, conn_count = 1;
static int overload_max;  // connections that may be open at most when requests don't wait for a free one; 0: they wait
static double duration_s = 3, warm_s = 0, rate = 0;
static const char *path = "/1k.json", *sni = "localhost", *extra_header = "", *ca_file;
static struct sockaddr_in proxy_addr, target_addr;
static char target_host[128];
static int target_port;

// ---- shared state --------------------------------------------------------------------------------------------------
static char request[4096], connect_request[1024];
static unsigned char socks_request[300];
static int request_len, connect_len, socks_len;
static int epoll_fd;
static SSL_CTX *tls_ctx;
static SSL_SESSION *saved_session;
static int running = 1, in_flight, held;
static uint64_t ok, errors, reconnects, tls_resumed, tls_full, body_bytes;
static uint64_t refused, busy;    // answers 503 and 429 under overload: neither served nor errors
static uint64_t offered, unsent;  // requests that were due; those for which no connection was to be had
static int established;
static uint64_t counted_from;  // end of the warm-up, ns
static char error_texts[8][64];
static int error_text_count;
static char scratch[1 << 18];
static conn *parked_first, *parked_last;  // idle connections of the fixed-rate mode, the longest idle first

// ---- latency histogram: 0.25 us steps to 64 us, then 128 buckets an octave -------------------------------------------
#define BUCKETS 4000
static uint32_t histogram[BUCKETS], refused_histogram[BUCKETS];

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int bucket_of(uint64_t ns) {
  uint64_t quarter_us = ns / 250;
  if (quarter_us < 256) return quarter_us;
  int octave = 63 - __builtin_clzll(quarter_us), sub = (quarter_us >> (octave - 7)) & 127;
  int index = 256 + (octave - 8) * 128 + sub;
  return index < BUCKETS ? index : BUCKETS - 1;
}

static double bucket_us(int index) {
  if (index < 256) return index * 0.25;
  int octave = (index - 256) / 128 + 8, sub = (index - 256) % 128;
  return ((1ull << octave) + ((uint64_t)sub << (octave - 7))) * 0.25;
}

static double percentile_us(const uint32_t *counts, double p) {
  uint64_t total = 0, seen = 0;
  for (int i = 0; i < BUCKETS; i++) total += counts[i];
  if (!total) return 0;
  uint64_t wanted = total * p;
  for (int i = 0; i < BUCKETS; i++)
    if ((seen += counts[i]) > wanted) return bucket_us(i);
  return bucket_us(BUCKETS - 1);
}

// ---- connections ---------------------------------------------------------------------------------------------------
static void open_conn(conn *c);

static void note_error(const char *said) {
  char text[64] = "";
  for (int i = 0; i < 63 && said[i]; i++) text[i] = said[i] < 32 || said[i] == '"' || said[i] == '\\' ? ' ' : said[i];
  errors++;
  for (int i = 0; i < error_text_count; i++)
    if (!strcmp(error_texts[i], text)) return;
  if (error_text_count < 8) strcpy(error_texts[error_text_count++], text);
}

static void wait_for(conn *c, int events) {
  if (c->events == events) return;
  struct epoll_event e = {.events = events, .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
  c->events = events;
}

static void close_conn(conn *c) {
  if (c->ssl) {
    if (c->state >= ST_SEND) SSL_shutdown(c->ssl);
    SSL_free(c->ssl);
    c->ssl = NULL;
  }
  if (c->fd >= 0) close(c->fd);
  c->fd = -1;
  c->state = ST_DEAD;
}

static void fail_conn(conn *c, const char *text) {
  note_error(text);
  ERR_clear_error();
  close_conn(c);
  c->owes = 0;
  if (running && mode != MODE_HOLD && mode != MODE_BULK && errors < 20000) open_conn(c);
  else in_flight--;
}

static void reopen(conn *c) {
  reconnects++;
  close_conn(c);
  open_conn(c);
}

static void open_conn(conn *c) {
  int one = 1;
  c->ssl = NULL;
  c->in_len = c->out_len = c->out_off = c->requests = 0;
  c->t0 = now_ns();
  c->state = ST_CONNECTING;
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct sockaddr_in *to = via == VIA_DIRECT ? &target_addr : &proxy_addr;
  if (connect(c->fd, (struct sockaddr *)to, sizeof *to) < 0 && errno != EINPROGRESS) note_error("connect()");
  struct epoll_event e = {.events = EPOLLOUT, .data.ptr = c};
  c->events = EPOLLOUT;
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
}

static int on_new_session(SSL *ssl, SSL_SESSION *session) {
  (void)ssl;
  if (!resume_tls) return 0;
  if (saved_session) SSL_SESSION_free(saved_session);
  saved_session = session;
  return 1;
}

enum { IO_EOF = 0, IO_AGAIN = -1, IO_ERROR = -2 };

static int tls_result(conn *c, int r) {
  int e = SSL_get_error(c->ssl, r);
  ERR_clear_error();
  if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) return IO_AGAIN;
  if (e == SSL_ERROR_ZERO_RETURN || (e == SSL_ERROR_SYSCALL && r == 0)) return IO_EOF;
  return IO_ERROR;
}

static int read_some(conn *c, char *to, int size) {
  int r = c->ssl ? SSL_read(c->ssl, to, size) : recv(c->fd, to, size, 0);
  if (r > 0) return r;
  if (c->ssl) return tls_result(c, r);
  return r == 0 ? IO_EOF : errno == EAGAIN ? IO_AGAIN : IO_ERROR;
}

static int write_some(conn *c, const char *from, int size) {
  int r = c->ssl ? SSL_write(c->ssl, from, size) : send(c->fd, from, size, MSG_NOSIGNAL);
  if (r > 0) return r;
  if (c->ssl) return tls_result(c, r) == IO_AGAIN ? IO_AGAIN : IO_ERROR;
  return errno == EAGAIN ? IO_AGAIN : IO_ERROR;
}

// ---- the story of one connection: each step returns 1 to go on at once, 0 to stop here -----------------------------
static void queue_out(conn *c, const void *bytes, int len, enum state next) {
  c->out = bytes;
  c->out_len = len;
  c->out_off = 0;
  c->state = next;
}

static void send_request(conn *c) {
  c->in_len = 0;
  queue_out(c, request, request_len, ST_SEND);
}

static void park(conn *c) {
  c->state = ST_PARKED;
  wait_for(c, EPOLLIN);
  c->parked_after = NULL;
  c->parked_before = parked_last;
  if (parked_last) parked_last->parked_after = c;
  else parked_first = c;
  parked_last = c;
}

static void unpark(conn *c) {
  if (c->parked_before) c->parked_before->parked_after = c->parked_after;
  else parked_first = c->parked_after;
  if (c->parked_after) c->parked_after->parked_before = c->parked_before;
  else parked_last = c->parked_before;
}

static void record(conn *c) {
  if (rate > 0 && c->t0 < counted_from) return;  // was due in the warm-up
  if (c->status == 200) ok++;
  else if (c->status == 503) refused++;
  else busy++;
  (c->status == 200 ? histogram : refused_histogram)[bucket_of(now_ns() - c->t0)]++;
}

static int response_done(conn *c) {
  c->requests++;
  record(c);
  if (mode == MODE_BULK || !running) {
    close_conn(c);
    in_flight--;
    return 0;
  }
  if (mode == MODE_NEW) {
    close_conn(c);
    open_conn(c);
    return 0;
  }
  if (c->close_after || c->until_close) {
    reopen(c);
    return 0;
  }
  if (rate > 0) {
    park(c);
    return 0;
  }
  c->t0 = now_ns();
  send_request(c);
  return 1;
}

static int ready(conn *c) {  // proxy handshake and TLS are through
  if (!c->established) {
    c->established = 1;
    established++;
  }
  if (mode == MODE_CONN) {
    c->status = 200;
    record(c);
    close_conn(c);
    if (running) open_conn(c);
    else in_flight--;
    return 0;
  }
  if (mode == MODE_HOLD) {
    c->state = ST_HELD;
    held++;
    wait_for(c, EPOLLIN);
    return 0;
  }
  if (c->owes) {
    c->owes = 0;
    send_request(c);
    return 1;
  }
  if (rate > 0) {
    park(c);
    return 0;
  }
  if (mode == MODE_KEEP) c->t0 = now_ns();
  send_request(c);
  return 1;
}

static int tunnel_ready(conn *c) {
  if (!use_tls) return ready(c);
  c->ssl = SSL_new(tls_ctx);
  SSL_set_fd(c->ssl, c->fd);
  SSL_set_tlsext_host_name(c->ssl, sni);
  if (ca_file) SSL_set1_host(c->ssl, sni);
  if (resume_tls && saved_session) SSL_set_session(c->ssl, saved_session);
  SSL_set_connect_state(c->ssl);
  c->state = ST_TLS;
  return 1;
}

static int step_connecting(conn *c, int events) {
  int e = 0;
  socklen_t len = sizeof e;
  getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &len);
  if (e) {
    char text[64];
    snprintf(text, sizeof text, "connect: %s", strerror(e));
    fail_conn(c, text);
    return 0;
  }
  if (!(events & EPOLLOUT)) return 0;
  if (via == VIA_CONNECT) queue_out(c, connect_request, connect_len, ST_PROXY_HTTP);
  else if (via == VIA_SOCKS5) queue_out(c, "\5\1\0", 3, ST_PROXY_GREET);
  else return tunnel_ready(c);
  return 1;
}

static int step_proxy(conn *c) {
  while (c->out_off < c->out_len) {
    int r = send(c->fd, c->out + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL);
    if (r < 0) {
      if (errno == EAGAIN) wait_for(c, EPOLLIN | EPOLLOUT);
      else fail_conn(c, "proxy handshake: send");
      return 0;
    }
    c->out_off += r;
  }
  wait_for(c, EPOLLIN);
  // No target of ours speaks first, so nothing past the proxy's answer can be in this read.
  int r = recv(c->fd, c->in + c->in_len, HEAD_MAX - 1 - c->in_len, 0);
  if (r <= 0) {
    if (r < 0 && errno == EAGAIN) return 0;
    fail_conn(c, r ? "proxy handshake: recv" : "proxy handshake: closed");
    return 0;
  }
  c->in_len += r;
  c->in[c->in_len] = 0;
  const unsigned char *in = (unsigned char *)c->in;
  if (c->state == ST_PROXY_HTTP) {
    if (!strstr(c->in, "\r\n\r\n")) return 1;
    if (strncmp(c->in, "HTTP/1.", 7) || strncmp(c->in + 8, " 200", 4)) {
      char text[64];
      snprintf(text, sizeof text, "CONNECT: %.30s", c->in);
      fail_conn(c, text);
      return 0;
    }
  } else if (c->state == ST_PROXY_GREET) {
    if (c->in_len < 2) return 1;
    if (in[1] != 0) {
      fail_conn(c, "socks: method refused");
      return 0;
    }
    c->in_len = 0;
    queue_out(c, socks_request, socks_len, ST_PROXY_SOCKS);
    return 1;
  } else {
    if (c->in_len < 5) return 1;
    int whole = in[3] == 1 ? 10 : in[3] == 4 ? 22 : 7 + in[4];
    if (c->in_len < whole) return 1;
    if (in[1] != 0) {
      fail_conn(c, "socks: refused");
      return 0;
    }
  }
  c->in_len = 0;
  return tunnel_ready(c);
}

static int step_tls(conn *c) {
  int r = SSL_connect(c->ssl);
  if (r == 1) {
    if (SSL_session_reused(c->ssl)) tls_resumed++;
    else tls_full++;
    return ready(c);
  }
  int e = SSL_get_error(c->ssl, r);
  if (e == SSL_ERROR_WANT_READ) wait_for(c, EPOLLIN);
  else if (e == SSL_ERROR_WANT_WRITE) wait_for(c, EPOLLIN | EPOLLOUT);
  else {
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    char text[64];
    snprintf(text, sizeof text, "tls: %s", reason ? reason : "closed");
    fail_conn(c, text);
  }
  return 0;
}

static int step_send(conn *c) {
  while (c->out_off < c->out_len) {
    int r = write_some(c, c->out + c->out_off, c->out_len - c->out_off);
    if (r == IO_AGAIN) {
      wait_for(c, EPOLLIN | EPOLLOUT);
      return 0;
    }
    if (r < 0) {
      if (c->requests && running) reopen(c);  // a kept connection that the proxy closed meanwhile
      else fail_conn(c, "send");
      return 0;
    }
    c->out_off += r;
  }
  c->state = ST_HEAD;
  c->in_len = 0;
  wait_for(c, EPOLLIN);
  return 1;
}

static int feed_chunks(conn *c, const char *bytes, int len) {  // 1: the last chunk and its trailers are here
  for (int i = 0; i < len;) switch (c->chunk_state) {
      case 0:  // size line
        if (bytes[i] == '\n') {
          c->chunk_line[c->chunk_line_len] = 0;
          c->body_left = strtoll(c->chunk_line, NULL, 16);
          c->chunk_line_len = 0;
          c->chunk_state = c->body_left ? 1 : 3;
        } else if (c->chunk_line_len < 30) c->chunk_line[c->chunk_line_len++] = bytes[i];
        i++;
        break;
      case 1: {  // data
        long long take = len - i < c->body_left ? len - i : c->body_left;
        c->body_left -= take;
        i += take;
        body_bytes += take;
        if (!c->body_left) c->chunk_state = 2;
        break;
      }
      case 2:  // line end after data
        if (bytes[i++] == '\n') c->chunk_state = 0;
        break;
      default:  // trailers, up to an empty line
        if (bytes[i] == '\n') {
          if (c->chunk_line_len == 0) return 1;
          c->chunk_line_len = 0;
        } else if (bytes[i] != '\r') c->chunk_line_len = 1;
        i++;
    }
  return 0;
}

static int step_head(conn *c) {
  int r = read_some(c, c->in + c->in_len, HEAD_MAX - 1 - c->in_len);
  if (r == IO_AGAIN) {
    wait_for(c, EPOLLIN);
    return 0;
  }
  if (r <= 0) {
    if (c->requests && c->in_len == 0 && running) reopen(c);
    else fail_conn(c, r ? "recv" : "closed before the response head");
    return 0;
  }
  c->in_len += r;
  c->in[c->in_len] = 0;
  char *end = strstr(c->in, "\r\n\r\n");
  if (!end) {
    if (c->in_len < HEAD_MAX - 1) return 1;
    fail_conn(c, "response head too large");
    return 0;
  }
  c->status = atoi(c->in + 9);
  if (c->status != 200 && !(overload_max && (c->status == 503 || c->status == 429))) {
    char text[64];
    snprintf(text, sizeof text, "status %.20s", c->in + 9);
    fail_conn(c, text);
    return 0;
  }
  c->body_left = -1;
  c->chunked = c->until_close = c->chunk_state = c->chunk_line_len = 0;
  c->close_after = c->in[7] == '0';
  for (char *line = strstr(c->in, "\r\n") + 2; line < end + 2; line = strstr(line, "\r\n") + 2) {
    if (!strncasecmp(line, "content-length:", 15)) c->body_left = atoll(line + 15);
    else if (!strncasecmp(line, "transfer-encoding:", 18)) c->chunked = 1;
    else if (!strncasecmp(line, "connection: close", 17)) c->close_after = 1;
  }
  int head = end + 4 - c->in, rest = c->in_len - head;
  c->state = ST_BODY;
  if (c->chunked) return rest && feed_chunks(c, c->in + head, rest) ? response_done(c) : 1;
  body_bytes += rest;
  if (c->body_left < 0) {
    c->until_close = 1;
    return 1;
  }
  c->body_left -= rest;
  return c->body_left <= 0 ? response_done(c) : 1;
}

static int step_body(conn *c) {
  int r = read_some(c, scratch, sizeof scratch);
  if (r == IO_AGAIN) {
    wait_for(c, EPOLLIN);
    return 0;
  }
  if (r <= 0) {
    if (c->until_close && r == IO_EOF) return response_done(c);
    fail_conn(c, "closed in the body");
    return 0;
  }
  if (c->chunked) return feed_chunks(c, scratch, r) ? response_done(c) : 1;
  body_bytes += r;
  if (c->until_close) return 1;
  c->body_left -= r;
  return c->body_left <= 0 ? response_done(c) : 1;
}

static int step_held(conn *c) {
  int r = read_some(c, scratch, sizeof scratch);
  if (r > 0) return 1;
  if (r == IO_AGAIN) return 0;
  held--;
  note_error("held tunnel was closed");
  close_conn(c);
  in_flight--;
  return 0;
}

static int step_parked(conn *c) {  // an idle connection may only get TLS tickets, or be closed
  int r = read_some(c, scratch, sizeof scratch);
  if (r > 0) return 1;
  if (r == IO_AGAIN) return 0;
  unpark(c);
  reopen(c);
  return 0;
}

static int step(conn *c, int events) {
  switch (c->state) {
    case ST_CONNECTING: return step_connecting(c, events);
    case ST_PROXY_HTTP:
    case ST_PROXY_GREET:
    case ST_PROXY_SOCKS: return step_proxy(c);
    case ST_TLS: return step_tls(c);
    case ST_SEND: return step_send(c);
    case ST_HEAD: return step_head(c);
    case ST_BODY: return step_body(c);
    case ST_PARKED: return step_parked(c);
    case ST_HELD: return step_held(c);
    default: return 0;
  }
}

// ---- set-up --------------------------------------------------------------------------------------------------------
static void parse_addr(const char *text, struct sockaddr_in *to, char *host, int *port) {
  char copy[128];
  snprintf(copy, sizeof copy, "%s", text);
  char *colon = strrchr(copy, ':');
  if (!colon) {
    fprintf(stderr, "pload: %s is not HOST:PORT\n", text);
    exit(2);
  }
  *colon = 0;
  memset(to, 0, sizeof *to);
  to->sin_family = AF_INET;
  to->sin_port = htons(atoi(colon + 1));
  inet_pton(AF_INET, strcmp(copy, "localhost") ? copy : "127.0.0.1", &to->sin_addr);
  if (host) strcpy(host, copy);
  if (port) *port = atoi(colon + 1);
}

static void build_requests(void) {
  char header[1024] = "", origin[160] = "";
  if (*extra_header) snprintf(header, sizeof header, "%s\r\n", extra_header);
  if (via == VIA_HTTP) snprintf(origin, sizeof origin, "http://%s:%d", target_host, target_port);
  request_len = snprintf(request, sizeof request,
                         "GET %s%s HTTP/1.1\r\nHost: %s:%d\r\nUser-Agent: pload/1\r\nAccept: */*\r\n%s\r\n", origin, path,
                         target_host, target_port, header);
  connect_len = snprintf(connect_request, sizeof connect_request, "CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n",
                         target_host, target_port, target_host, target_port);
  struct in_addr ip;
  unsigned char *s = socks_request;
  s[0] = 5, s[1] = 1, s[2] = 0;
  int n;
  if (inet_pton(AF_INET, target_host, &ip) == 1) {
    s[3] = 1;
    memcpy(s + 4, &ip, 4);
    n = 8;
  } else {
    s[3] = 3;
    s[4] = strlen(target_host);
    memcpy(s + 5, target_host, s[4]);
    n = 5 + s[4];
  }
  s[n] = target_port >> 8;
  s[n + 1] = target_port & 255;
  socks_len = n + 2;
}

static void build_tls(void) {
  tls_ctx = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_mode(tls_ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (ca_file && SSL_CTX_load_verify_locations(tls_ctx, ca_file, NULL) != 1) {
    fprintf(stderr, "pload: cannot read CA %s\n", ca_file);
    exit(2);
  }
  SSL_CTX_set_verify(tls_ctx, ca_file ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
  SSL_CTX_set_session_cache_mode(tls_ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(tls_ctx, on_new_session);
  SSL_CTX_set_alpn_protos(tls_ctx, (unsigned char *)"\x08http/1.1", 9);
}

static void usage(void) {
  fprintf(stderr,
          "usage: pload -v direct|http|connect|socks5 -m keep|new|conn|bulk|hold -T TARGET:PORT [-p PROXY:PORT]\n"
          "  -t TLS to the target   -C CA.pem verify it   -s SNI   -r resume TLS sessions\n"
          "  -c connections   -d seconds   -w seconds of warm-up   -P /path   -H 'Name: value'\n"
          "  -R requests a second, fixed (keep only): latency counts from when a request was due\n"
          "  -O connections at most: with -R a request that finds none free opens one; 503 and 429 are counted, not errors\n"
          "It prints START when counting begins, and one JSON line at the end.\n");
  exit(2);
}

static void report(uint64_t begun) {
  double elapsed = (now_ns() - counted_from) / 1e9, total = (now_ns() - begun) / 1e9;
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  double cpu = u.ru_utime.tv_sec + u.ru_utime.tv_usec / 1e6 + u.ru_stime.tv_sec + u.ru_stime.tv_usec / 1e6;
  printf("{\"ok\":%lu,\"err\":%lu,\"sec\":%.3f,\"rps\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,"
         "\"p999_us\":%.1f,\"MBps\":%.1f,\"bytes\":%lu,\"reconnects\":%lu,\"tls_full\":%lu,\"tls_resumed\":%lu,"
         "\"held\":%d,\"client_cpu\":%.2f,\"offered\":%lu,\"unsent\":%lu,\"refused\":%lu,\"busy\":%lu,\"refused_p50_us\":%.1f,"
         "\"refused_p99_us\":%.1f,\"errors\":\"",
         ok, errors, elapsed, ok / elapsed, percentile_us(histogram, .5), percentile_us(histogram, .9), percentile_us(histogram, .99),
         percentile_us(histogram, .999),
         body_bytes / elapsed / 1e6, body_bytes, reconnects, tls_full, tls_resumed, held, cpu / total,
         offered, unsent, refused, busy, percentile_us(refused_histogram, .5), percentile_us(refused_histogram, .99));
  for (int i = 0; i < error_text_count; i++) printf("%s%s", i ? "; " : "", error_texts[i]);
  printf("\"}\n");
}

#define CONNECT_NS 30000000000ull  // all connections must be open by then, or it goes on with those that are
static int timer_fd = -1;

// Wakes the loop for what is due: every 200 us, more often at high rates, but not for each request of them.
static void start_timer(void) {
  long period = 1e9 / rate;
  period = period > 200000 ? 200000 : period < 50000 ? 50000 : period;
  timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct itimerspec every = {.it_interval.tv_nsec = period, .it_value.tv_nsec = period};
  timerfd_settime(timer_fd, 0, &every, NULL);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &e);
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  const char *target = "127.0.0.1:80", *proxy = NULL;
  for (int o; (o = getopt(argc, argv, "v:m:tc:d:w:p:T:P:C:rs:H:R:O:")) > 0;) switch (o) {
      case 'v':
        via = !strcmp(optarg, "http") ? VIA_HTTP : !strcmp(optarg, "connect") ? VIA_CONNECT
            : !strcmp(optarg, "socks5") ? VIA_SOCKS5 : VIA_DIRECT;
        break;
      case 'm':
        mode = !strcmp(optarg, "new") ? MODE_NEW : !strcmp(optarg, "conn") ? MODE_CONN
             : !strcmp(optarg, "bulk") ? MODE_BULK : !strcmp(optarg, "hold") ? MODE_HOLD : MODE_KEEP;
        break;
      case 't': use_tls = 1; break;
      case 'c': conn_count = atoi(optarg); break;
      case 'd': duration_s = atof(optarg); break;
      case 'w': warm_s = atof(optarg); break;
      case 'p': proxy = optarg; break;
      case 'T': target = optarg; break;
      case 'P': path = optarg; break;
      case 'C': ca_file = optarg; break;
      case 'r': resume_tls = 1; break;
      case 's': sni = optarg; break;
      case 'H': extra_header = optarg; break;
      case 'R': rate = atof(optarg); break;
      case 'O': overload_max = atoi(optarg); break;
      default: usage();
    }
  if (via != VIA_DIRECT && !proxy) usage();
  parse_addr(target, &target_addr, target_host, &target_port);
  if (proxy) parse_addr(proxy, &proxy_addr, NULL, NULL);
  build_requests();
  if (use_tls) build_tls();

  epoll_fd = epoll_create1(0);
  if (overload_max && overload_max < conn_count) overload_max = conn_count;
  int conns_max = overload_max ? overload_max : conn_count;
  conn *conns = calloc(conns_max, sizeof(conn));
  if (rate > 0) start_timer();
  uint64_t begun = now_ns(), schedule = begun, sent = 0, warm_end = begun + warm_s * 1e9, end = warm_end + duration_s * 1e9;
  int opened = 0, warmed = 0, announced = 0;
  // More at once than a listener's queue takes would wait a second for the SYN to be sent again.
  int burst = mode == MODE_HOLD ? 50 : mode == MODE_KEEP && conn_count > 256 ? 256 : conn_count;
  in_flight = conn_count;
  while (opened < conn_count && opened < burst) open_conn(&conns[opened++]);

  struct epoll_event ready_events[512];
  while (in_flight > 0) {
    uint64_t t = now_ns();
    int is_connecting = mode == MODE_KEEP && established < conn_count && t < begun + CONNECT_NS;
    if (is_connecting) {
      while (opened < conn_count && opened - established < burst) open_conn(&conns[opened++]);
      schedule = t;
      warm_end = t + warm_s * 1e9;
      end = warm_end + duration_s * 1e9;
    }
    if (!warmed && !is_connecting && t >= warm_end) {
      warmed = 1;
      ok = refused = busy = unsent = offered = body_bytes = 0;
      memset(histogram, 0, sizeof histogram);
      memset(refused_histogram, 0, sizeof refused_histogram);
      counted_from = schedule = t;
      sent = 0;  // what a proxy could not do while it warmed up is not held against it
      if (mode != MODE_HOLD) puts("START");
      fflush(stdout);
    }
    if (mode == MODE_HOLD) {
      if (held == conn_count && !announced) {
        announced = 1;
        printf("READY %d in %.3fs\n", held, (t - begun) / 1e9);
        fflush(stdout);
        end = t + duration_s * 1e9;
      }
      while (opened < conn_count && opened - held - (int)errors < burst) open_conn(&conns[opened++]);
      if (t > end + (announced ? 0 : CONNECT_NS)) break;
    } else if (warmed && t >= end) {
      running = 0;
      break;
    }
    while (rate > 0 && !is_connecting && (parked_first || overload_max)) {
      uint64_t due = schedule + sent * (1e9 / rate);
      if (due > t) break;
      sent++;
      offered++;
      conn *c = parked_first;
      if (c) {
        unpark(c);
        c->t0 = due;  // queueing counts: a request that could not leave in time was still asked for then
        send_request(c);
        while (step(c, EPOLLOUT)) {}
      } else if (opened < conns_max) {
        c = &conns[opened++];
        in_flight++;
        open_conn(c);
        c->t0 = due;
        c->owes = 1;
      } else unsent++;
    }
    int n = epoll_wait(epoll_fd, ready_events, 512, 20);
    for (int i = 0; i < n; i++) {
      conn *c = ready_events[i].data.ptr;
      uint64_t ticks;
      if (!c) {
        if (read(timer_fd, &ticks, sizeof ticks) < 0) continue;
        continue;
      }
      int events = ready_events[i].events;
      if (events & (EPOLLERR | EPOLLHUP)) events |= EPOLLOUT;
      while (step(c, events)) {}
    }
  }
  report(begun);
  return 0;
}
