import{At as e,Ft as t,Ht as n,Kt as r,Lt as i,Nt as a,Pt as o,Qt as s,T as c,Vt as l,Wt as u,Yt as d,Zt as f,an as p,at as m,cn as h,ct as g,dn as _,fn as v,ht as y,it as b,jt as x,qt as S,rn as C,sn as w,tn as T,v as E,vt as D,yt as O,zt as k}from"./index-D34gQYi9.js";var A=`urn:ietf:params:oauth:grant-type:device_code`,j=`urn:ietf:params:oauth:grant-type:token-exchange`,M=[{name:`web`,label:`Web application`,text:`Runs on a server, which can keep a secret`,type:`confidential`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`spa`,label:`Single-page, mobile or desktop app`,text:`Runs on devices of its users: no secret, PKCE instead`,type:`public`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`service`,label:`Service`,text:`Calls the API as itself, without a user`,type:`confidential`,grants:[`client_credentials`],redirects:!1},{name:`device`,label:`Command line or device`,text:`Shows a code, which the user enters in a browser elsewhere`,type:`public`,grants:[A,`refresh_token`],redirects:!1}],N={authorization_code:`Sign-in by redirect`,refresh_token:`Refresh tokens`,client_credentials:`As itself`,[A]:`Device code`,[j]:`Token exchange`},P=e=>N[e]??e,F=e=>[...new Set(e.map(e=>e.trim()).filter(Boolean))];function I(e,t,n){let r=e.checked?.[t]?.indexOf(n.trim())??-1;return r<0?void 0:e.field(`${t}[${r}]`)}var L=e=>e.token_endpoint_auth_method===`private_key_jwt`,R=e=>e.link.replace(/\/console\/oauth\/.*$/,``);function z(e){let t=e.redirect_uris[0];if(!t||!e.grant_types.includes(`authorization_code`))return;let n=[...crypto.getRandomValues(new Uint8Array(43))].map(e=>`ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_`[e%64]).join(``),r={response_type:`code`,client_id:e.id,redirect_uri:t,scope:e.scopes.join(` `),state:`console`,code_challenge:n,code_challenge_method:`S256`};return`/authorize?`+new URLSearchParams(r)}function B(e){let t=JSON.stringify,n=R(e),r=e.client_type===`confidential`,i=e.redirect_uris[0]??`https://app.example.com/callback`,a=e.scopes.join(` `),o=L(e),s=n.startsWith(`http:`)?`${o?``:`
  undefined,`}\n  { execute: [oidc.allowInsecureRequests] }, // the issuer is plain http`:``,c=o?`undefined,
  oidc.PrivateKeyJwt(privateKey), // a CryptoKey`:`process.env.STEWARD_CLIENT_SECRET,`,l=[],u=(e,t,n)=>l.push({name:e,label:t,text:n.trim()});e.grant_types.includes(`authorization_code`)&&r&&(u(`node`,`Node.js`,`
// npm install openid-client
import * as oidc from "openid-client";

const config = await oidc.discovery(
  new URL(${t(n)}),
  ${t(e.id)},
  ${c}${s}
);

// Send the user to this address. Keep verifier and state in the session.
const verifier = oidc.randomPKCECodeVerifier();
const state = oidc.randomState();
const address = oidc.buildAuthorizationUrl(config, {
  redirect_uri: ${t(i)},
  scope: ${t(a)},
  state,
  code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
});

// When the user comes back:
const tokens = await oidc.authorizationCodeGrant(config, new URL(request.url), {
  pkceCodeVerifier: verifier,
  expectedState: state,
});
console.log(tokens.claims());`),u(`nextjs`,`Next.js`,`
// npm install next-auth@beta
// Its redirect URI is https://<your host>/api/auth/callback/steward
import NextAuth from "next-auth";

export const { handlers, auth, signIn, signOut } = NextAuth({
  providers: [
    {
      id: "steward",
      name: "Steward",
      type: "oidc",
      issuer: ${t(n)},
      clientId: ${t(e.id)},
      clientSecret: process.env.STEWARD_CLIENT_SECRET,
      authorization: { params: { scope: ${t(a)} } },
    },
  ],
});`),u(`python`,`Python`,`
# pip install authlib flask requests
import os
from authlib.integrations.flask_client import OAuth
from flask import Flask, session

app = Flask(__name__)
app.secret_key = os.environ["FLASK_SECRET_KEY"]
steward = OAuth(app).register(
    "steward",
    client_id=${t(e.id)},
    client_secret=os.environ["STEWARD_CLIENT_SECRET"],
    server_metadata_url=${t(n+`/.well-known/openid-configuration`)},
    client_kwargs={"scope": ${t(a)}, "code_challenge_method": "S256"},
)

@app.get("/login")
def login():
    return steward.authorize_redirect(${t(i)})

@app.get("/callback")
def callback():
    session["user"] = steward.authorize_access_token()["userinfo"]
    return session["user"]`),u(`go`,`Go`,`
// go get github.com/coreos/go-oidc/v3/oidc golang.org/x/oauth2
provider, err := oidc.NewProvider(ctx, ${t(n)})
if err != nil {
	return err
}
config := oauth2.Config{
	ClientID:     ${t(e.id)},
	ClientSecret: os.Getenv("STEWARD_CLIENT_SECRET"),
	Endpoint:     provider.Endpoint(),
	RedirectURL:  ${t(i)},
	Scopes:       []string{${e.scopes.map(e=>t(e)).join(`, `)}},
}

// Send the user to this address. Keep verifier and state in the session.
verifier := oauth2.GenerateVerifier()
address := config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))

// When the user comes back:
token, err := config.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(verifier))`)),e.grant_types.includes(`authorization_code`)&&!r&&(u(`browser`,`Browser`,`
// npm install oidc-client-ts
import { UserManager } from "oidc-client-ts";

const users = new UserManager({
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
});

// The button "Sign in":
await users.signinRedirect();

// On the page of the redirect URI:
const user = await users.signinCallback();
console.log(user.profile);`),u(`react`,`React`,`
// npm install react-oidc-context oidc-client-ts
import { AuthProvider, useAuth } from "react-oidc-context";

const settings = {
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
};

export const App = () => <AuthProvider {...settings}><SignIn /></AuthProvider>;

function SignIn() {
  const auth = useAuth();
  if (auth.isAuthenticated) return <p>Hello {auth.user?.profile.name}</p>;
  return <button onClick={() => auth.signinRedirect()}>Sign in</button>;
}`)),e.grant_types.includes(`client_credentials`)&&u(`service`,`As itself (curl)`,`
curl ${E(n+`/oauth/token`)} \\
  -u ${E(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=client_credentials \\
  --data-urlencode ${E(`scope=`+e.scopes.filter(e=>e.includes(`:`)).join(` `))}`),e.grant_types.includes(A)&&u(`device`,`Device code (curl)`,`
# Show user_code and verification_uri of the answer to the user.
curl ${E(n+`/device_authorization`)} \\
  -d client_id=${E(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  --data-urlencode ${E(`scope=`+a)}

# Then ask for the tokens every few seconds, as "interval" says.
curl ${E(n+`/oauth/token`)} \\
  -d client_id=${E(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  -d grant_type=${A} \\
  -d device_code="$DEVICE_CODE"`),e.grant_types.includes(`urn:ietf:params:oauth:grant-type:token-exchange`)&&u(`exchange`,`Token exchange (curl)`,`
# ACCESS_TOKEN was issued to this app or for its audience.
curl ${E(n+`/oauth/token`)} \\
  -u ${E(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=${j} \\
  -d subject_token="$ACCESS_TOKEN" \\
  -d subject_token_type=urn:ietf:params:oauth:token-type:access_token`);let d={OIDC_ISSUER:n,OIDC_CLIENT_ID:e.id,...r&&!o?{OIDC_CLIENT_SECRET:`<the secret>`}:{},OIDC_REDIRECT_URI:i,OIDC_SCOPES:a};return u(`env`,`Environment`,Object.entries(d).map(([e,n])=>`${e}=${t(n)}`).join(`
`)),o?l.filter(e=>!e.text.includes(`STEWARD_CLIENT_SECRET`)):l}var V=class{#e=C();get problem(){return u(this.#e)}set problem(e){T(this.#e,e)}#t=C();get checked(){return u(this.#t)}set checked(e){T(this.#t,e)}field(e){return this.problem?.field(e)??``}};function H(e,t){let n=new V;return S(()=>{let r=e(),i=new AbortController,a=setTimeout(async()=>{let e=await W(t(r,i.signal));i.signal.aborted||e&&U(e)||(n.problem=e,n.checked=r)},250);return()=>{clearTimeout(a),i.abort()}}),n}function U(e){return m(e)||e.status===401||e.code===`reauthentication_required`}async function W(e){try{await e}catch(e){return b(e)}}var G=i(`<span class="fault"> </span>`),K=i(`<span class="hint good">This address can be used.</span>`),q=i(`<div class="field"><div class="row uri"><input class="input grow mono" placeholder="https://app.example.com/callback" autocomplete="off" spellcheck="false" inputmode="url"/> <button type="button" class="btn plain square"><!></button></div> <span role="status"><!></span></div>`),J=i(`<div><button type="button" class="btn tiny"><!>Add address</button></div>`),Y=i(`<fieldset><legend> </legend> <p class="small soft"> </p> <!> <!></fieldset>`);function X(i,l){let m=k();h(l,!0);let b=g(l,`uris`,15);var S=Y(),C=d(S),T=f(C,!0),E=s(C,2),A=f(E,!0),j=s(E,2);e(j,17,b,x,(e,i,h)=>{let g=p(()=>l.verdict(u(i)));var _=q(),x=d(_),S=d(x);D(S);var C=s(S,2),w=d(C);c(w,{name:`close`}),v(C),v(x);var T=s(x,2),E=d(T),k=e=>{var n=G(),i=f(n,!0);r(()=>o(i,u(g))),t(e,n)},A=e=>{var n=K();t(e,n)};a(E,e=>{u(g)?e(k):u(g)===``&&e(A,1)}),v(T),v(_),r(()=>{O(S,`name`,l.name),O(S,`aria-label`,`${l.label} ${h+1}`),O(S,`aria-invalid`,u(g)?`true`:void 0),O(S,`aria-describedby`,`${m}-${h}`),O(C,`aria-label`,`Remove ${l.label} ${h+1}`),O(T,`id`,`${m}-${h}`)}),y(S,()=>b()[h],e=>b(b()[h]=e,!0)),n(`click`,C,()=>b(b().filter((e,t)=>t!==h))),t(e,_)});var M=s(j,2),N=e=>{var r=J(),i=d(r),a=d(i);c(a,{name:`plus`}),_(),v(i),v(r),n(`click`,i,()=>b([...b(),``])),t(e,r)};a(M,e=>{b().length<100&&e(N)}),v(S),r(()=>{o(T,l.label),o(A,l.hint)}),t(i,S),w()}l([`click`]);export{L as a,B as c,I as d,P as i,j as l,H as n,R as o,F as r,M as s,X as t,z as u};