package oidc

// The scopes that OpenID Connect defines, and one for claims about the organization.
const (
	ScopeOpenID        = "openid"
	ScopeProfile       = "profile"
	ScopeEmail         = "email"
	ScopeOrganization  = "organization"
	ScopeOfflineAccess = "offline_access"
)

// Scope is a permission that a client can request, with the consent page's texts.
type Scope struct {
	Name               string `json:"name" example:"thread:read"`
	Description        string `json:"description" example:"Read threads and sessions"`
	ConsentTitle       string `json:"consent_title" example:"Read threads"`
	ConsentDescription string `json:"consent_description" example:"Read your conversation threads"`
	Sensitive          bool   `json:"sensitive" doc:"Whether it gives access to sensitive data or allows changes"`
	Required           bool   `json:"required" doc:"Whether users cannot decline it without declining the request"`
	Default            bool   `json:"default" doc:"Whether new clients have it by default"`
}

// Catalogue lists everything that a client can request: the scopes, and the access levels that they
// make up.
type Catalogue struct {
	_ struct{} `goName:"ScopeCatalogue"`

	Scopes      []Scope             `json:"scopes"`
	Permissions []PermissionSection `json:"permissions"`
}

// PermissionSection groups areas in the catalogue.
type PermissionSection struct {
	ID     string            `json:"id" example:"agents"`
	Label  string            `json:"label" example:"Agents"`
	Groups []PermissionGroup `json:"groups"`
}

// PermissionGroup is an area in the API with its access levels.
type PermissionGroup struct {
	ID          string        `json:"id" example:"thread"`
	Name        string        `json:"name" example:"Threads"`
	Description string        `json:"description" example:"Conversation threads and sessions"`
	Levels      []AccessLevel `json:"levels"`
}

// AccessLevel is a set of scopes for one area.
type AccessLevel struct {
	Label        string   `json:"label" example:"Read"`
	Value        string   `json:"value" example:"read"`
	Scopes       []string `json:"scopes" example:"thread:read"`
	Warning      bool     `json:"warning,omitempty" doc:"Whether it allows data to be deleted or roles to be granted"`
	WarningTitle string   `json:"warningTitle,omitempty" example:"Sensitive data"`
}

// area is a part of the API with two scopes, `<id>:read` and `<id>:write`.
type area struct {
	id, name    string
	description string
	// read and write describe the two scopes on the consent page.
	read, write string
	// sensitive reports whether reading shows credentials or users' data.
	sensitive bool
	// warning names the most harmful action that writing allows, or is "".
	warning string
}

// section groups areas under a label.
type section struct {
	id, label string
	areas     []area
}

var sections = []section{
	{"account", "Account", []area{
		{
			"account", "Account", "The user's account, organizations, projects and connected applications",
			"See your name, email address and role, your organizations and projects, and the applications you connected",
			"Disconnect applications that you connected, and create organizations",
			false, "Can delete connections to other applications, with their tokens and API keys",
		},
	}},
	{"access", "Access and credentials", []area{
		{
			"member", "Members", "Members of the organization, their roles and the audit log",
			"See the members of your organization and what they did",
			"Invite, change and remove members, and reset their passwords",
			true, "Can grant any role up to your own, and remove members",
		},
		{
			"oauth", "OAuth applications", "OAuth clients, their users and activity, and signing keys",
			"See your organization's applications and their activity",
			"Create, change and delete applications, rotate secrets and signing keys, and sign out their users",
			false, "Can delete applications and the access of their users",
		},
		{
			"apikey", "API keys", "Keys that act as you in your organization",
			"See your API keys, without their values",
			"Create API keys, which act as you, and delete them",
			false, "Can delete API keys that programs depend on",
		},
	}},
	{"data", "Data", []area{
		{
			"storage", "Object storage", "Buckets, their objects and settings",
			"List and download objects, and see the usage of buckets",
			"Upload, change and delete objects, and change the settings of buckets",
			false, "Can delete objects",
		},
		{
			"resource", "Resources", "Databases, buckets and key-value stores",
			"See your databases, buckets and key-value stores, without their credentials",
			"Create and delete databases, buckets and key-value stores with their contents, and see their credentials",
			true, "Can delete databases, buckets and key-value stores with their contents",
		},
		{
			"thread", "Threads", "Conversation threads with agent state and user data",
			"Read conversation threads, with the data of users in them",
			"Write and delete conversation threads",
			true, "Can delete conversation threads",
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
			"webhook", "Webhooks", "Webhooks, the requests they receive and their deliveries",
			"See webhooks, the requests they received, and their deliveries",
			"Create, change and delete webhooks and destinations, and retry deliveries",
			false, "Can delete webhooks with the requests they received",
		},
	}},
}

// identityScopes are the scopes for claims about users and for refresh tokens.
var identityScopes = []Scope{
	{
		Name: ScopeOpenID, Description: "Sign in with OpenID Connect",
		ConsentTitle: "Know who you are", ConsentDescription: "Sign you in and recognize you when you come back",
		Required: true, Default: true,
	},
	{
		Name: ScopeProfile, Description: "Name and picture of the user",
		ConsentTitle: "See your profile", ConsentDescription: "See your name and your picture",
		Default: true,
	},
	{
		Name: ScopeEmail, Description: "Email address of the user",
		ConsentTitle: "See your email address", ConsentDescription: "See the email address of your account",
		Default: true,
	},
	{
		Name: ScopeOrganization, Description: "Role of the user in the organization of the application",
		ConsentTitle:       "See your role in the organization",
		ConsentDescription: "See whether you belong to the organization that runs this application, with your role and groups",
	},
	{
		Name: ScopeOfflineAccess, Description: "Refresh tokens, for access while the user is away",
		ConsentTitle:       "Stay connected",
		ConsentDescription: "Keep this access while you are not using the application",
		Default:            true,
	},
}

// Scopes returns the catalogue's scopes in the consent page's order.
func Scopes() []Scope {
	all := append([]Scope{}, identityScopes...)
	for _, s := range sections {
		for _, a := range s.areas {
			all = append(all, a.scopes()...)
		}
	}
	return all
}

func (a area) scopes() []Scope {
	return []Scope{
		{
			Name: a.id + ":read", Description: "Read: " + a.description,
			ConsentTitle: "Read: " + a.name, ConsentDescription: a.read, Sensitive: a.sensitive,
		},
		{
			Name: a.id + ":write", Description: "Change: " + a.description,
			ConsentTitle: "Change: " + a.name, ConsentDescription: a.write, Sensitive: true,
		},
	}
}

var scopesByName = indexScopes()

func indexScopes() map[string]Scope {
	index := map[string]Scope{}
	for _, s := range Scopes() {
		index[s.Name] = s
	}
	return index
}

// ScopeNamed returns the scope with a name, if the catalogue has it.
func ScopeNamed(name string) (Scope, bool) {
	s, ok := scopesByName[name]
	return s, ok
}

// defaultScopes returns the scopes for a client created without any.
func defaultScopes() []string {
	var names []string
	for _, s := range Scopes() {
		if s.Default {
			names = append(names, s.Name)
		}
	}
	return names
}

// NewCatalogue builds the catalogue from the tables above.
func NewCatalogue() Catalogue {
	c := Catalogue{Scopes: Scopes()}
	for _, s := range sections {
		out := PermissionSection{ID: s.id, Label: s.label}
		for _, a := range s.areas {
			out.Groups = append(out.Groups, PermissionGroup{
				ID: a.id, Name: a.name, Description: a.description, Levels: a.levels(),
			})
		}
		c.Permissions = append(c.Permissions, out)
	}
	return c
}

func (a area) levels() []AccessLevel {
	write := AccessLevel{Label: "Read and write", Value: "write", Scopes: []string{a.id + ":read", a.id + ":write"}}
	write.Warning = a.warning != ""
	write.WarningTitle = a.warning
	return []AccessLevel{
		{Label: "None", Value: "none", Scopes: []string{}},
		{Label: "Read", Value: "read", Scopes: []string{a.id + ":read"}},
		write,
	}
}
