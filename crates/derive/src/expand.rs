//! Code generation for the derive macros.

use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::{
    Data, DeriveInput, Error, Field, Fields, GenericArgument, Generics, Index, Member, PathArguments, Result,
    Type, parse_quote,
};

/// Maximum number of variants of an enum: the variant number takes one byte.
const VARIANTS_MAX: usize = 256;

pub(crate) fn stored(input: DeriveInput) -> Result<TokenStream> {
    let (store, restored) = match &input.data {
        Data::Struct(data) => {
            let at = members(&data.fields);
            let restored = values(&data.fields);
            (quote!(#(::strobe_types::Stored::store(&self.#at, out);)*), quote!(Ok(Self #restored)))
        }
        Data::Enum(data) if (1..=VARIANTS_MAX).contains(&data.variants.len()) => {
            let (mut stores, mut restores) = (TokenStream::new(), TokenStream::new());
            for (number, variant) in (0..=u8::MAX).zip(&data.variants) {
                let (name, at) = (&variant.ident, members(&variant.fields));
                // A field may be called `out`, so the bindings have generated names.
                let bound: Vec<_> = (0..at.len()).map(|n| format_ident!("field_{n}")).collect();
                stores.extend(quote!(Self::#name { #(#at: #bound),* } => {
                    ::strobe_types::Stored::store(&#number, out);
                    #(::strobe_types::Stored::store(#bound, out);)*
                }));
                let restored = values(&variant.fields);
                restores.extend(quote!(#number => Self::#name #restored,));
            }
            let unknown = quote!(return Err(::strobe_types::StateError::Unfit("an unknown enum variant")));
            let number = quote!(<u8 as ::strobe_types::Stored>::restored(from)?);
            (quote!(match self { #stores }), quote!(Ok(match #number { #restores _ => #unknown })))
        }
        Data::Enum(_) => return Err(refused(&input, "an enum with `Stored` has 1 to 256 variants")),
        Data::Union(_) => {
            return Err(refused(&input, "a union has no state: `Stored` is for structs and enums"));
        }
    };
    let name = &input.ident;
    // A generic field is stored through its `Stored` implementation, so each type parameter needs the bound.
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::strobe_types::Stored));
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #parameters ::strobe_types::Stored for #name #arguments #bounds {
            #[inline]
            fn store(&self, out: &mut ::strobe_types::StateWriter<'_>) { #store }

            #[inline]
            fn restored(
                from: &mut ::strobe_types::StateReader<'_>,
            ) -> ::core::result::Result<Self, ::strobe_types::StateError> { #restored }
        }
    })
}

pub(crate) fn state(input: DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(refused(&input, "`State` is for structs: derive `Stored` for an enum"));
    };
    let (mut saves, mut loads) = (TokenStream::new(), TokenStream::new());
    let mut generics = input.generics.clone();
    for (field, at) in data.fields.iter().zip(members(&data.fields)) {
        let at = quote!(self.#at);
        let held = &field.ty;
        let (save, load, held) = match Kind::of(field)? {
            Kind::Plain => (
                quote!(::strobe_types::State::save_state(&#at, out);),
                quote!(::strobe_types::State::load_state(&mut #at, from)?;),
                quote!(#held),
            ),
            Kind::Table => (
                quote!(::strobe_types::State::save_state(&#at[..], out);),
                quote!(::strobe_types::State::load_state(&mut #at[..], from)?;),
                quote!(<#held as ::core::ops::Deref>::Target),
            ),
            Kind::Part => {
                // The bound applies to the type inside of `Option` and `Box`.
                let part = inside(held, "Option").ok_or_else(|| {
                    Error::new_spanned(held, "a `part` is an `Option`, or an `Option<Box<…>>`")
                })?;
                let (shared, unique, part) = match inside(part, "Box") {
                    Some(boxed) => (quote!(as_deref), quote!(as_deref_mut), boxed),
                    None => (quote!(as_ref), quote!(as_mut), part),
                };
                (
                    quote!(::strobe_types::save_part(#at.#shared(), out);),
                    quote!(::strobe_types::load_part(#at.#unique(), from)?;),
                    quote!(#part),
                )
            }
            Kind::Skipped => continue,
        };
        saves.extend(save);
        loads.extend(load);
        // A concrete type needs no bound: if it is no `State`, the generated code does not compile.
        if mentions(&held, &input.generics) {
            generics.make_where_clause().predicates.push(parse_quote!(#held: ::strobe_types::State));
        }
    }
    let name = &input.ident;
    let (parameters, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #parameters ::strobe_types::State for #name #arguments #bounds {
            fn save_state(&self, out: &mut ::strobe_types::StateWriter<'_>) { #saves }

            fn load_state(
                &mut self,
                from: &mut ::strobe_types::StateReader<'_>,
            ) -> ::core::result::Result<(), ::strobe_types::StateError> {
                #loads
                Ok(())
            }
        }
    })
}

#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Table,
    Part,
    Skipped,
}

impl Kind {
    fn of(field: &Field) -> Result<Self> {
        let mut kind = Self::Plain;
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("state")) {
            attribute.parse_nested_meta(|meta| {
                if !matches!(kind, Self::Plain) {
                    return Err(meta.error("a field is one of `table`, `part` and `skip`"));
                }
                kind = if meta.path.is_ident("table") {
                    Self::Table
                } else if meta.path.is_ident("part") {
                    Self::Part
                } else if meta.path.is_ident("skip") {
                    Self::Skipped
                } else {
                    return Err(meta.error("unknown: `#[state]` takes `table`, `part` or `skip`"));
                };
                Ok(())
            })?;
        }
        Ok(kind)
    }
}

fn members(fields: &Fields) -> Vec<Member> {
    let member = |(at, field): (usize, &Field)| match &field.ident {
        Some(name) => Member::Named(name.clone()),
        None => Member::Unnamed(Index::from(at)),
    };
    fields.iter().enumerate().map(member).collect()
}

/// Struct literal that restores the fields in declaration order.
fn values(fields: &Fields) -> TokenStream {
    let at = members(fields);
    quote!({ #(#at: ::strobe_types::Stored::restored(from)?),* })
}

fn inside<'a>(held: &'a Type, wrapper: &str) -> Option<&'a Type> {
    let Type::Path(path) = held else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == wrapper)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

fn mentions(code: &TokenStream, generics: &Generics) -> bool {
    code.clone().into_iter().any(|token| match token {
        TokenTree::Ident(name) => generics.type_params().any(|parameter| parameter.ident == name),
        TokenTree::Group(group) => mentions(&group.stream(), generics),
        _ => false,
    })
}

fn refused(input: &DeriveInput, why: &str) -> Error {
    Error::new_spanned(&input.ident, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: Result<TokenStream>) -> String {
        code.expect_err("refused").to_string()
    }

    #[test]
    fn unknown_attributes_are_refused_and_named() {
        let input = parse_quote!(
            struct Queue {
                #[state(tabel)]
                busy: Vec<bool>,
            }
        );
        assert_eq!(error(state(input)), "unknown: `#[state]` takes `table`, `part` or `skip`");
        let input = parse_quote!(
            struct Queue {
                #[state(table, skip)]
                busy: Vec<bool>,
            }
        );
        assert_eq!(error(state(input)), "a field is one of `table`, `part` and `skip`");
        let input = parse_quote!(
            struct Queue {
                #[state(part)]
                #[state(skip)]
                busy: Option<bool>,
            }
        );
        assert_eq!(error(state(input)), "a field is one of `table`, `part` and `skip`");
        assert!(
            state(parse_quote!(
                struct Queue {
                    #[state = "skip"]
                    busy: Vec<bool>,
                }
            ))
            .is_err()
        );
    }

    #[test]
    fn parts_are_options() {
        let input = parse_quote!(
            struct Queue {
                #[state(part)]
                busy: Vec<bool>,
            }
        );
        assert_eq!(error(state(input)), "a `part` is an `Option`, or an `Option<Box<…>>`");
    }

    #[test]
    fn enums_are_values() {
        assert!(
            error(state(parse_quote!(
                enum Step {
                    Idle,
                }
            )))
            .contains("derive `Stored`")
        );
        assert!(
            error(stored(parse_quote!(
                enum Never {}
            )))
            .contains("1 to 256 variants")
        );
        assert!(error(stored(parse_quote!(union Both { a: u8, b: i8 }))).contains("a union has no state"));
    }

    #[test]
    fn the_number_of_a_variant_takes_one_byte() {
        let with = |count: usize| {
            let names: Vec<_> = (0..count).map(|n| format_ident!("V{n}")).collect();
            stored(parse_quote!(enum Many { #(#names),* }))
        };
        assert!(with(256).expect("one byte").to_string().contains("255u8"));
        assert!(with(257).is_err());
    }
}
