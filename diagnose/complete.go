package diagnose

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/tare-trace/tare/store"
)

// completeTimeout bounds how long a shell waits for names.
const completeTimeout = time.Second

// services are the names that --service may have: of the page that is named or runs here by
// default, else of the store. None if neither answers.
func (o *options) services(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	if _, err := os.Stat(o.store); err == nil && o.page == "" {
		if s, err := store.Open(store.Options{Dir: o.store, NoSync: true}); err == nil {
			defer func() { _ = s.Close() }() // nothing was written
			all, err := s.Services(ctx)
			if err != nil {
				return nil
			}
			var names []string
			for _, service := range all {
				names = append(names, service.Name)
			}
			return names
		}
	}
	page := o.page
	if page == "" {
		page = defaultPage
	}
	base, err := url.Parse(page)
	if err != nil {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("api/v1/services").String(), nil)
	if err != nil {
		return nil
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var list struct{ Services []struct{ Name string } }
	if json.NewDecoder(answer.Body).Decode(&list) != nil {
		return nil
	}
	var names []string
	for _, service := range list.Services {
		names = append(names, service.Name)
	}
	return names
}
