package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

const maxAnswerBytes = 1 << 20

// Call posts body to path of the server at address (host:port) and returns
// the answer's JSON.
func Call(ctx context.Context, address, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make a request to %s: %w", address, err)
	}
	// One connection a call: the server may be another one by the next.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", address, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", address, err)
	}
	if answer.StatusCode != http.StatusOK {
		var failure Failure
		if json.Unmarshal(data, &failure) != nil || failure.Error == "" {
			failure.Error = answer.Status
		}
		return nil, errors.New(failure.Error)
	}
	return data, nil
}
