// SPDX-License-Identifier: Apache-2.0

// Command modelapi answers agents as the API of a model would: each question with the word PONG. It speaks the
// APIs of Anthropic (/v1/messages), OpenAI (/v1/responses and /v1/chat/completions) and Gemini
// (:generateContent), streaming or not. It listens at the address of its first argument, on loopback, and writes
// a line to the file of the second one when it does.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
)

const answer = "PONG"

func main() {
	http.HandleFunc("/", serve)
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[2], []byte("up\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, nil))
}

func serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var question struct {
		Model  string
		Stream bool
	}
	_ = json.Unmarshal(body, &question)
	s := &speaker{w: w, stream: question.Stream || strings.Contains(r.URL.Path, ":stream")}
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/count_tokens"):
		s.whole(object{"input_tokens": 10})
	case strings.HasSuffix(path, "/messages"):
		s.anthropic(question.Model)
	case strings.HasSuffix(path, "/responses"):
		s.responses(question.Model)
	case strings.HasSuffix(path, "/chat/completions"):
		s.chat(question.Model)
	case strings.Contains(path, "enerateContent"):
		s.gemini()
	case strings.HasSuffix(path, "/models"):
		s.whole(object{"object": "list", "data": []object{{"id": "pong", "object": "model", "type": "model"}}})
	default:
		http.NotFound(w, r)
	}
}

type object = map[string]any

// speaker writes one answer.
type speaker struct {
	w      http.ResponseWriter
	stream bool
}

func (s *speaker) whole(v any) {
	s.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(s.w).Encode(v)
}

// event writes a server-sent event; "" is one without a name.
func (s *speaker) event(name string, v any) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	text, _ := json.Marshal(v)
	if name != "" {
		fmt.Fprintf(s.w, "event: %s\n", name)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", text)
}

func (s *speaker) anthropic(model string) {
	text := object{"type": "text", "text": answer}
	message := object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []object{text},
		"stop_reason": "end_turn", "stop_sequence": nil, "usage": object{"input_tokens": 10, "output_tokens": 1},
	}
	if !s.stream {
		s.whole(message)
		return
	}
	begun := object{}
	for key, value := range message {
		begun[key] = value
	}
	begun["content"] = []object{}
	begun["stop_reason"] = nil
	send := func(kind string, more object) {
		more["type"] = kind
		s.event(kind, more)
	}
	send("message_start", object{"message": begun})
	send("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
	send("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": answer}})
	send("content_block_stop", object{"index": 0})
	send("message_delta", object{
		"delta": object{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": object{"output_tokens": 1},
	})
	send("message_stop", object{})
}

func (s *speaker) responses(model string) {
	item := object{
		"type": "message", "id": "item_1", "role": "assistant", "status": "completed",
		"content": []object{{"type": "output_text", "text": answer, "annotations": []object{}}},
	}
	response := object{
		"id": "resp_1", "object": "response", "model": model, "status": "completed", "output": []object{item},
		"usage": object{"input_tokens": 10, "output_tokens": 1, "total_tokens": 11},
	}
	if !s.stream {
		s.whole(response)
		return
	}
	begun := object{"id": "resp_1", "object": "response", "model": model, "status": "in_progress", "output": []object{}}
	s.event("response.created", object{"type": "response.created", "response": begun})
	s.event("response.output_item.done", object{"type": "response.output_item.done", "output_index": 0, "item": item})
	s.event("response.completed", object{"type": "response.completed", "response": response})
}

func (s *speaker) chat(model string) {
	whole := object{"id": "chat_1", "object": "chat.completion", "created": 1, "model": model}
	usage := object{"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
	message := object{"role": "assistant", "content": answer}
	if !s.stream {
		whole["choices"] = []object{{"index": 0, "message": message, "finish_reason": "stop"}}
		whole["usage"] = usage
		s.whole(whole)
		return
	}
	whole["object"] = "chat.completion.chunk"
	whole["choices"] = []object{{"index": 0, "delta": message, "finish_reason": nil}}
	s.event("", whole)
	whole["choices"] = []object{{"index": 0, "delta": object{}, "finish_reason": "stop"}}
	whole["usage"] = usage
	s.event("", whole)
	fmt.Fprint(s.w, "data: [DONE]\n\n")
}

func (s *speaker) gemini() {
	content := object{"role": "model", "parts": []object{{"text": answer}}}
	response := object{
		"candidates":    []object{{"index": 0, "content": content, "finishReason": "STOP"}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 1, "totalTokenCount": 11},
	}
	if s.stream {
		s.event("", response)
	} else {
		s.whole(response)
	}
}
