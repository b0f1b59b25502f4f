package oidc

// The scopes of OpenID Connect.
const (
	ScopeOpenID        = "openid"
	ScopeProfile       = "profile"
	ScopeEmail         = "email"
	ScopeOfflineAccess = "offline_access"
)

// Scope is a right that a client may ask a user for, with the words in which the user is asked.
type Scope struct {
	Name               string `json:"name"`
	Description        string `json:"description"`
	ConsentTitle       string `json:"consent_title"`
	ConsentDescription string `json:"consent_description"`
	Sensitive          bool   `json:"sensitive" doc:"Whether the user should look twice"`
	Required           bool   `json:"required" doc:"Whether the user cannot decline it alone"`
	Default            bool   `json:"default" doc:"Whether a client has it that was made without scopes"`
}

// Catalogue is everything that a client may ask for: the scopes, and the levels of access that they make up.
type Catalogue struct {
	Scopes      []Scope    `json:"scopes"`
	Permissions []AreaList `json:"permissions"`
}

// AreaList is a heading with areas of the API under it.
type AreaList struct {
	ID     string  `json:"id"`
	Label  string  `json:"label"`
	Groups []Group `json:"groups"`
}

// Group is one area of the API with the levels of access to it.
type Group struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	Description string  `json:"description"`
	Levels      []Level `json:"levels"`
}

// Level is what a client may be given in an area.
type Level struct {
	Label        string   `json:"label"`
	Value        string   `json:"value"`
	Scopes       []string `json:"scopes"`
	Warning      bool     `json:"warning,omitempty" doc:"Whether what it allows can destroy"`
	WarningTitle string   `json:"warningTitle,omitempty"`
}

// area is a part of the API; its two scopes are `<id>:read` and `<id>:write`.
type area struct {
	id, name    string
	description string
	see, change string
	// secrets says that reading shows credentials; destroys what a write can remove for good, "" if nothing.
	secrets  bool
	destroys string
}

// heading is a title over areas.
type heading struct {
	id, label string
	areas     []area
}

var headings = []heading{
	{"access", "Access and credentials", []area{
		{
			"oauth", "OAuth applications", "OAuth clients, their users and activity, members and signing keys",
			"See your organization's applications, their activity and its members",
			"Create, change and delete applications, make new secrets, sign out their users, and manage members",
			false, "applications and the access of their users",
		},
		{
			"apikey", "API keys", "Keys that act as you in your organization",
			"See your API keys, without their values",
			"Create API keys, which act as you, and delete them",
			false, "API keys that programs rely on",
		},
	}},
	{"data", "Data", []area{
		{
			"storage", "Object storage", "Buckets, their objects and settings",
			"List and download objects, and see what buckets hold",
			"Upload, change and delete objects, and change the settings of buckets",
			false, "objects",
		},
		{
			"resource", "Resources", "Databases, buckets and key-value stores",
			"See your databases, buckets and key-value stores, and the credentials with which to use them",
			"Create and delete databases, buckets and key-value stores with all that they hold",
			true, "databases, buckets and key-value stores with all that they hold",
		},
		{
			"thread", "Threads", "Conversation threads with agent state and user data",
			"Read conversation threads, with the data of users in them",
			"Write and delete conversation threads",
			true, "conversation threads",
		},
	}},
	{"operation", "Operations", []area{
		{
			"eval", "Evaluations", "Evaluations of agents and their runs",
			"See evaluations and the results of their runs",
			"Record evaluations and their runs",
			false, "",
		},
		{
			"webhook", "Webhooks", "Webhooks, what they received and where it went",
			"See webhooks, the requests they received, and their deliveries",
			"Create, change and delete webhooks and destinations, and send deliveries again",
			false, "webhooks with all that they received",
		},
	}},
}

// identity are the scopes of OpenID Connect itself.
var identity = []Scope{
	{
		Name: "openid", Description: "Sign in with OpenID Connect",
		ConsentTitle: "Know who you are", ConsentDescription: "Sign you in and recognise you when you come back",
		Required: true, Default: true,
	},
	{
		Name: "profile", Description: "Name and picture of the user",
		ConsentTitle: "See your profile", ConsentDescription: "See your name and your picture", Default: true,
	},
	{
		Name: "email", Description: "E-mail address of the user",
		ConsentTitle: "See your e-mail address", ConsentDescription: "See the e-mail address of your account", Default: true,
	},
	{
		Name: "offline_access", Description: "Refresh tokens, for access while the user is away",
		ConsentTitle: "Stay connected", ConsentDescription: "Keep the access that you give here while you are not using the application",
		Default: true,
	},
}

// Scopes lists the catalogue's scopes, in the order in which users are asked.
func Scopes() []Scope {
	all := append([]Scope{}, identity...)
	for _, h := range headings {
		for _, a := range h.areas {
			all = append(all,
				Scope{
					Name: a.id + ":read", Description: "Read: " + a.description, ConsentTitle: "Read: " + a.name, ConsentDescription: a.see,
					Sensitive: a.secrets,
				},
				Scope{
					Name: a.id + ":write", Description: "Change: " + a.description, ConsentTitle: "Change: " + a.name,
					ConsentDescription: a.change, Sensitive: true,
				})
		}
	}
	return all
}

// byName finds a scope; it is made once and never changed.
var byName = func() map[string]Scope {
	m := map[string]Scope{}
	for _, s := range Scopes() {
		m[s.Name] = s
	}
	return m
}()

// ScopeNamed gives a scope of the catalogue, and whether there is one of that name.
func ScopeNamed(name string) (Scope, bool) {
	s, ok := byName[name]
	return s, ok
}

// defaultScopes are those of a client that was made without any.
func defaultScopes() []string {
	var names []string
	for _, s := range Scopes() {
		if s.Default {
			names = append(names, s.Name)
		}
	}
	return names
}

// CatalogueOf gives the whole catalogue.
func CatalogueOf() Catalogue {
	c := Catalogue{Scopes: Scopes()}
	for _, h := range headings {
		list := AreaList{ID: h.id, Label: h.label}
		for _, a := range h.areas {
			list.Groups = append(list.Groups, Group{ID: a.id, Name: a.name, Description: a.description, Levels: a.levels()})
		}
		c.Permissions = append(c.Permissions, list)
	}
	return c
}

func (a area) levels() []Level {
	write := Level{Label: "Read and write", Value: "write", Scopes: []string{a.id + ":read", a.id + ":write"}}
	if a.destroys != "" {
		write.Warning, write.WarningTitle = true, "Can delete "+a.destroys
	}
	return []Level{
		{Label: "None", Value: "none", Scopes: []string{}},
		{Label: "Read", Value: "read", Scopes: []string{a.id + ":read"}},
		write,
	}
}
