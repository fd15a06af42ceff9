//go:build linux

package scrape

import (
	"bytes"
	"strings"
)

// status is of HTTP. Requests that a scraper has no reason to send are all bad ones.
type status int

const (
	statusOK         status = 200
	statusBadRequest status = 400
	statusNotFound   status = 404
	statusNotAllowed status = 405
	statusFailed     status = 500
)

func (s status) String() string {
	return map[status]string{
		statusOK: "200 OK", statusBadRequest: "400 Bad Request", statusNotFound: "404 Not Found",
		statusNotAllowed: "405 Method Not Allowed", statusFailed: "500 Internal Server Error",
	}[s]
}

// request is the head of one, as far as it matters.
type request struct {
	method string
	path   string
}

// parse reads the head of a request of HTTP/1.0 or 1.1 (RFC 9112), up to and with the empty
// line. It is strict: what is read in two ways by two programs is refused.
func parse(head []byte) (request, bool) {
	text, ended := strings.CutSuffix(string(head), "\r\n\r\n")
	lines := strings.Split(text, "\r\n")
	if !ended || bytes.ContainsAny(head, "\x00") || strings.ContainsAny(strings.Join(lines, ""), "\r\n") {
		return request{}, false
	}
	words := strings.Split(lines[0], " ")
	if len(words) != 3 || !isToken(words[0]) || (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0") {
		return request{}, false
	}
	path, ok := pathOf(words[1])
	hosts, good := headers(lines[1:])
	if !ok || !good || hosts > 1 || hosts == 0 && words[2] == "HTTP/1.1" {
		return request{}, false
	}
	return request{words[0], path}, true
}

// pathOf takes a path with or without parameters, which Prometheus may be told to send. An
// escape in the path, or another form of a target, no scraper needs.
func pathOf(target string) (string, bool) {
	for _, c := range []byte(target) {
		if c <= ' ' || c >= 0x7f {
			return "", false
		}
	}
	path, _, _ := strings.Cut(target, "?")
	return path, strings.HasPrefix(path, "/") && !strings.Contains(path, "%")
}

// headers checks the lines, counts those that say Host, and refuses a body: nothing that
// is asked for here has one.
func headers(lines []string) (hosts int, ok bool) {
	for _, line := range lines {
		name, value, colon := strings.Cut(line, ":")
		if !colon || !isToken(name) || !isValue(value) {
			return 0, false
		}
		switch strings.ToLower(name) {
		case "host":
			hosts++
		case "transfer-encoding":
			return 0, false
		case "content-length":
			if strings.Trim(value, " \t") != "0" {
				return 0, false
			}
		}
	}
	return hosts, true
}

// isToken: RFC 9110, 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// isValue: no control character but the tab.
func isValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
