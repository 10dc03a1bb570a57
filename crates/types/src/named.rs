//! Enums whose variants have names.

/// An enum without fields, each variant with its name in results and messages, written once.
///
/// It is declared as written, and gets `ALL`, every variant in the order written, and `name`.
///
/// ```
/// strobe_types::named! {
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Colour {
///         Red => "red",
///         Deep = 7 => "deep blue",
///     }
/// }
/// assert_eq!(Colour::ALL, [Colour::Red, Colour::Deep]);
/// assert_eq!((Colour::Deep.name(), Colour::Deep as u8), ("deep blue", 7));
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $visibility:vis enum $enum:ident {
            $($(#[$variant_about:meta])* $variant:ident $(= $number:expr)? => $name:expr,)+
        }
    ) => {
        $(#[$about])*
        $visibility enum $enum {
            $($(#[$variant_about])* $variant $(= $number)?,)+
        }

        #[allow(dead_code, reason = "not every enum is gone through, and not every one is printed")]
        impl $enum {
            /// Every one, in the order of results.
            $visibility const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

            /// The name used in results and messages.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
