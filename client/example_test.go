package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"steward/client"
)

func Example() {
	ctx := context.Background()
	c := client.New("https://steward.example.com", os.Getenv("STEWARD_KEY"))
	webhook, err := c.CreateWebhook(ctx, client.NewWebhook{Name: "orders", Description: new("Orders of the shop")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("send requests to", *webhook.URL)
	for receipt, err := range c.AllReceipts(ctx, webhook.ID, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(receipt.Date, receipt.Method, string(receipt.Payload))
	}
}

func ExampleError() {
	c := client.New("https://steward.example.com", os.Getenv("STEWARD_KEY"))
	_, err := c.CreateProject(context.Background(), client.NewProject{})
	var e *client.Error
	switch {
	case client.IsUnauthorized(err):
		log.Fatal("the key is not valid")
	case errors.As(err, &e):
		for _, field := range e.Fields {
			log.Println(field.Location, field.Message)
		}
		log.Fatal("request ", e.RequestID)
	case err != nil:
		log.Fatal(err) // of the connection
	}
}

// A webhook keeps its name; its description is removed. The update fails if somebody else has
// changed the webhook since it was read.
func ExampleClient_With() {
	ctx := context.Background()
	c := client.New("https://steward.example.com", os.Getenv("STEWARD_KEY"))
	var res client.Response
	webhook, err := c.Capture(&res).GetWebhook(ctx, "wh_01jcq43f5h8k1n4q7t0w3z6c9f")
	if err != nil {
		log.Fatal(err)
	}
	patch := client.WebhookPatch{Description: client.Clear[string]()}
	_, err = c.With("If-Match", res.ETag()).UpdateWebhook(ctx, webhook.ID, patch)
	if client.IsPreconditionFailed(err) {
		log.Fatal("the webhook has changed")
	}
}

func ExampleClient_Tail() {
	c := client.New("https://steward.example.com", os.Getenv("STEWARD_KEY"))
	params := client.TailParams{
		Since:        time.Now().Add(-time.Hour),
		Reconnecting: func(err error, wait time.Duration) { log.Println("reconnecting in", wait, err) },
	}
	for event, err := range c.Tail(context.Background(), params) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Type {
		case client.EventReceipt:
			fmt.Println(event.Receipt.ID, event.Receipt.Method, event.Receipt.Size)
		case client.EventDelivery:
			fmt.Println(event.Delivery.ID, event.Delivery.Status)
		}
	}
}
